"""The recipe of an imported model: the paper's for its dataset, with the values of its file."""

import re
from collections.abc import Mapping
from typing import Any

from pcme.errors import FormatError
from pcme.model.authors.sizes import Sizes
from pcme.recipes import get
from pcme.recipes.schema import Augment, Recipe, Words, part

UNKNOWN = "unknown"
VOCABULARIES = {2_151: "cub", 11_755: "coco"}
"""The sizes of the two vocabularies in the authors' repository, specials included."""

SAMPLES = 7
Config = Mapping[str, Any]


def dataset(config: Config | None, words: int, where: str) -> str:
    """The dataset it was trained on, told by its vocabulary, then by its loss."""
    if words in VOCABULARIES:
        return VOCABULARIES[words]
    # Only their settings for CUB have this term.
    return "cub" if _section(config, "criterion", where).get("uniform_lambda") else UNKNOWN


def recipe(config: Config | None, sizes: Sizes, data: str, where: str) -> Recipe:
    """The recipe; an error where the config contradicts the tensors or asks for another model."""
    model = _section(config, "model", where)
    _require_agreement(model, sizes, where)
    trained = get("coco" if data == UNKNOWN else data)
    augment = trained.augment.model_copy(update={"crop": "scaled-centre", "size": 224})
    return trained.model_copy(
        update={
            "name": f"authors-{data}",
            "data": part(data),
            "image": part("resnet", depth=sizes.depth),
            "caption": part("gru", readout="last-word"),
            "method": part("pcme-authors", samples=_samples(model, where)),
            "dim": sizes.dim,
            "words": Words(dim=sizes.word_dim),
            "augment": Augment.model_validate(augment.model_dump()),
        }
    )


def _section(config: Config | None, name: str, where: str) -> Config:
    """A part of the config; empty without a config, for the tensors tell all that is needed."""
    if config is None:
        return {}
    section = config.get(name)
    if not isinstance(section, Mapping):
        raise FormatError(f"{where}: config.{name} must be a dict, got {type(section).__name__}.")
    return section


def _require_agreement(model: Config, sizes: Sizes, where: str) -> None:
    for switch in ("img_attention", "txt_attention", "img_probemb", "txt_probemb"):
        if not model.get(switch, True):
            raise FormatError(
                f"{where}: config.model.{switch} is off. Only PCME itself, with attention and "
                "sigma on both sides, can be imported."
            )
    backbone = model.get("cnn_type", f"resnet{sizes.depth}")
    if not re.fullmatch(r"resnet\d+", str(backbone)):
        raise FormatError(f"{where}: config.model.cnn_type must be a resnet, got {backbone!r}.")
    _require_whole(model, "embed_dim", step=2, where=where)
    _require_whole(model, "word_dim", step=1, where=where)
    found = {
        "cnn_type": f"resnet{sizes.depth}", "embed_dim": sizes.dim, "word_dim": sizes.word_dim,
    }  # fmt: skip
    for name, value in found.items():
        if model.get(name, value) != value:
            raise FormatError(
                f"{where}: config.model.{name} must be that of the tensors, {value!r}, got "
                f"{model[name]!r}. Download the file again."
            )


def _require_whole(model: Config, name: str, *, step: int, where: str) -> None:
    value = model.get(name, step)
    if type(value) is not int or not 1 <= value <= 65_536 or value % step:
        kind = "an even whole number" if step == 2 else "a whole number"
        raise FormatError(f"{where}: config.model.{name} must be {kind} from {step} to 65,536, got {value!r}.")


def _samples(model: Config, where: str) -> int:
    """Samples per item; their code takes 0 and none for the mean alone."""
    value = model.get("n_samples_inference") or SAMPLES
    if type(value) is not int or not 1 <= value <= 1_000:
        raise FormatError(
            f"{where}: config.model.n_samples_inference must be a whole number from 0 to 1,000, got {value!r}."
        )
    return value
