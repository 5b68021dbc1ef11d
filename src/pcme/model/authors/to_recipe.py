"""The recipe of an imported model: the paper's for its dataset, with the values of its file."""

from collections.abc import Mapping
from typing import Any

from pcme.errors import FormatError
from pcme.model.authors.sizes import ONLY_PCME, Sizes
from pcme.recipes import get
from pcme.recipes.schema import Augment, Recipe, Words, part

UNKNOWN = "unknown"
VOCABULARIES = {2_151: "cub", 11_755: "coco"}
"""The sizes of the two vocabularies in the authors' repository, specials included."""

Config = Mapping[str, Any]


def dataset(config: Config | None, words: int, where: str) -> str:
    """The dataset it was trained on, inferred from its vocabulary, then from its loss."""
    if words in VOCABULARIES:
        return VOCABULARIES[words]
    # Only their settings for CUB have this term.
    return "cub" if _section(config, "criterion", where).get("uniform_lambda") else UNKNOWN


def recipe(config: Config | None, sizes: Sizes, data: str, where: str) -> Recipe:
    """The recipe; an error where the config contradicts the tensors or asks for another model."""
    model = _section(config, "model", where)
    for switch in ("img_attention", "txt_attention", "img_probemb", "txt_probemb"):
        if not model.get(switch, True):
            raise FormatError(f"{where}: config.model.{switch} is off. {ONLY_PCME}")
    inferred = {"cnn_type": f"resnet{sizes.depth}", "embed_dim": sizes.dim, "word_dim": sizes.word_dim}
    for name, value in inferred.items():
        if model.get(name, value) != value:
            raise FormatError(
                f"{where}: config.model.{name} must be that of the tensors, {value!r}, got {model[name]!r}. "
                "Download the file again."
            )
    samples = model.get("n_samples_inference") or 7  # their code takes 0 and none for the mean alone
    if type(samples) is not int or not 1 <= samples <= 1_000:
        raise FormatError(
            f"{where}: config.model.n_samples_inference must be a whole number from 0 to 1,000, got {samples!r}."
        )
    trained = get("coco" if data == UNKNOWN else data)
    augment = trained.augment.model_copy(update={"crop": "scaled-centre", "size": 224})
    return trained.model_copy(
        update={
            "name": f"authors-{data}",
            "data": part(data),
            "image": part("resnet", depth=sizes.depth),
            "caption": part("gru", readout="last-word"),
            "method": part("pcme-authors", samples=samples),
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
