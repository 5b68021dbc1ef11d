"""The authors' checkpoints as models of ours, with their embeddings.

A file of theirs (github.com/naver-ai/pcme) is a dict of `model, criterion, optimizer, lr_scheduler,
config, word2idx, metadata`. What its model computes is kept, also where the paper says otherwise:
the sentence vector is read at the last word, log σ has no bounds, captions are split by the rules
of the Penn Treebank, pictures are scaled to 256 and cut to 224.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pcme.authors import vocabulary
from pcme.authors.weights import WORDS, converted
from pcme.data.text import SPECIALS, Vocab
from pcme.errors import DataError, FormatError
from pcme.model import Model
from pcme.nn.images.resnet import SHAPES
from pcme.recipe import Augment, Recipe, Words, part
from pcme.recipes import get

__all__ = ["imported"]

NEEDED = ("model", "criterion", "config")


def imported(path: str | Path, *, vocab: str | Path | None = None) -> Model:
    """The model in a checkpoint that the authors' trainer wrote.

    `vocab` is the pickle of its words; a checkpoint has them too, and then both must be the same.
    """
    source = Path(path)
    record = _read(source)
    words = _words(record, source, None if vocab is None else Path(vocab))
    recipe = _recipe(record, source)
    _require_fitting_words(record["model"], len(words), source, vocab)
    names = vocabulary.ordered(words)
    own = Vocab(tuple(names[len(SPECIALS) :]), (1,) * (len(names) - len(SPECIALS)), "treebank")
    model = Model(recipe, own, torch.zeros(len(own), recipe.words.dim))
    rows = [words[name] for name in names]
    state = converted(model, record["model"], record["criterion"], rows, str(source))
    model.load_state_dict(state)
    return model.eval()


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any]
    try:
        # Their metadata has scores, some of which are NumPy's numbers.
        with torch.serialization.safe_globals(_numpy_numbers()):
            record = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be read - {error.strerror or error}") from error
    except Exception as error:  # damaged bytes can make the reader raise nearly anything
        reason = str(error).partition("\n")[0]
        raise FormatError(
            f"{path}: damaged, or more than tensors, numbers and words - {reason} - nothing in it "
            "was executed; fetch it again"
        ) from error
    missing = [key for key in NEEDED if not isinstance(record, dict) or key not in record]
    if missing:
        has = ", ".join(map(str, list(record)[:5])) if isinstance(record, dict) else type(record)
        raise FormatError(
            f"{path}: not a checkpoint of the authors' trainer - it has no {', '.join(missing)} - "
            f"it has {has}"
        )
    for key in ("model", "criterion"):
        _require_tensors(record[key], f"{path}: {key}")
    return record


def _numpy_numbers() -> list[Any]:
    """What makes a NumPy number, under the names of old and new versions."""
    scalar: Any = np.float64(0).__reduce__()[0]
    kinds = {type(np.dtype(code)) for code in ("f2", "f4", "f8", "i4", "i8", "bool")}
    names = [f"numpy.{core}.multiarray.scalar" for core in ("core", "_core")]
    return [*((scalar, name) for name in names), np.dtype, *kinds]


def _require_tensors(state: object, where: str) -> None:
    if not isinstance(state, Mapping) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    ):
        raise FormatError(f"{where} must be named tensors - got a {type(state).__name__}")


def _words(record: Mapping[str, Any], path: Path, given: Path | None) -> vocabulary.Ids:
    stored = record.get("word2idx")
    if stored is None and given is None:
        raise FormatError(f"{path}: it has no word2idx - give the vocabulary's file as --vocab")
    inside = None if stored is None else vocabulary.checked(stored, f"{path}: word2idx")
    outside = None if given is None else vocabulary.read(given)
    if inside is not None and outside is not None and inside != outside:
        raise FormatError(
            f"{given}: not the vocabulary of {path}, which has {len(inside):,} words to its "
            f"{len(outside):,}, or other ids - leave out --vocab: the checkpoint has its own"
        )
    return inside or outside or {}


def _require_fitting_words(
    weights: Mapping[str, Tensor], count: int, path: Path, vocab: str | Path | None
) -> None:
    table = weights.get(WORDS, weights.get(f"module.{WORDS}"))
    if table is not None and len(table) != count:
        raise FormatError(
            f"{path}: {WORDS} has {len(table):,} rows, and {vocab or 'its word2idx'} lists "
            f"{count:,} words - they are not of one model"
        )


def _recipe(record: Mapping[str, Any], path: Path) -> Recipe:
    """The paper's recipe for the dataset it was trained on, with what the file says."""
    model = _section(record, "model", path)
    depth = re.fullmatch(r"resnet(\d+)", str(model.get("cnn_type")))
    if depth is None or int(depth[1]) not in SHAPES:
        known = ", ".join(f"resnet{layers}" for layers in SHAPES)
        raise FormatError(
            f"{path}: config.model.cnn_type must be one of {known} - got {model.get('cnn_type')!r}"
        )
    for switch in ("img_attention", "txt_attention", "img_probemb", "txt_probemb"):
        if not model.get(switch, True):
            raise FormatError(
                f"{path}: config.model.{switch} is off - only PCME itself, with attention and "
                "sigma on both sides, can be imported"
            )
    # Only their CUB settings have this term.
    trained = get("cub" if _section(record, "criterion", path).get("uniform_lambda") else "coco")
    augment = trained.augment.model_copy(update={"crop": "scaled-centre", "size": 224})
    return trained.model_copy(
        update={
            "name": f"authors-{trained.name}",
            "image": part("resnet", depth=int(depth[1])),
            "caption": part("gru", readout="last-word"),
            "method": part("pcme-authors"),
            "dim": _whole(model, "embed_dim", path),
            "words": Words(dim=_whole(model, "word_dim", path)),
            "augment": Augment.model_validate(augment.model_dump()),
        }
    )


def _section(record: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    config = record["config"]
    section = config.get(name) if isinstance(config, Mapping) else None
    if not isinstance(section, Mapping):
        raise FormatError(f"{path}: config.{name} must be a dict - got {type(section).__name__}")
    return section


def _whole(section: Mapping[str, Any], name: str, path: Path) -> int:
    value = section.get(name)
    if type(value) is not int or not 1 <= value <= 65_536 or (name == "embed_dim" and value % 2):
        raise FormatError(
            f"{path}: config.model.{name} must be a whole number, even where each direction has "
            f"half of it - got {value!r}"
        )
    return value
