"""The authors' checkpoints as models of this package, with the same embeddings.

A file of theirs (github.com/naver-ai/pcme) is a dict of `model, criterion, optimizer, lr_scheduler,
config, word2idx, metadata`. Its model computes the same, also where the paper says otherwise:
the sentence vector is read at the last word, log σ has no bounds, captions are split by the rules
of the Penn Treebank, images are scaled to 256 and cut to 224.

Differs: image files are decoded as for all models here, upright and with alpha on white, where
theirs ignores EXIF orientation and alpha.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch

from pcme.data.text.tokens import SPECIALS, Vocab
from pcme.errors import FormatError
from pcme.model.authors import pth, to_recipe, vocabulary
from pcme.model.authors.sizes import WORDS, infer_sizes, require_usable
from pcme.model.authors.weights import convert
from pcme.model.model import Model
from pcme.model.origin import Origin, stated

__all__ = ["import_checkpoint"]


def import_checkpoint(path: str | Path, *, vocab: str | Path | None = None) -> Model:
    """The model in a checkpoint that the authors' trainer wrote.

    `vocab` is the pickle of its words; a checkpoint has them too, and then both must be the same.
    """
    source, where = Path(path), str(path)
    record = pth.read(source)
    words = _words(record.word2idx, source, None if vocab is None else Path(vocab))
    require_usable({**record.model, **_prefixed(record.criterion)}, where)
    sizes = infer_sizes(record.model, where)
    if sizes.words != len(words):
        raise FormatError(
            f"{path}: {WORDS} has {sizes.words:,} rows, and {vocab or 'its word2idx'} lists "
            f"{len(words):,} words. Give the vocabulary of this model."
        )
    data = to_recipe.dataset(record.config, len(words), where)
    recipe = to_recipe.recipe(record.config, sizes, data, where)
    names = vocabulary.ordered(words)
    own = Vocab(tuple(names[len(SPECIALS) :]), (1,) * (len(names) - len(SPECIALS)), "treebank")
    model = Model(recipe, own, torch.zeros(len(own), recipe.words.dim))
    rows = [words[name] for name in names]
    model.load_state_dict(convert(model, record.model, record.criterion, rows, where))
    model.origin = _origin(source, data, record.metadata)
    return model.eval()


def _prefixed(criterion: pth.Weights) -> pth.Weights:
    return {f"criterion.{name}": value for name, value in criterion.items()}


def _words(stored: object, path: Path, given: Path | None) -> vocabulary.Ids:
    if stored is None and given is None:
        raise FormatError(f"{path}: word2idx is missing. Give the vocabulary's file as --vocab.")
    inside = None if stored is None else vocabulary.checked(stored, f"{path}: word2idx")
    outside = None if given is None else vocabulary.read(given)
    if inside is not None and outside is not None and inside != outside:
        raise FormatError(
            f"{given}: not the vocabulary of {path}, which has {len(inside):,} words to its "
            f"{len(outside):,}, or other ids. Leave out --vocab: the checkpoint has its own."
        )
    return inside or outside or {}


def _origin(path: Path, data: str, metadata: Mapping[str, object]) -> Origin:
    epoch = metadata.get("cur_epoch")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Origin(
        file=path.name,
        sha256=digest,
        dataset=data,
        epoch=epoch if type(epoch) is int else None,
        scores=dict(stated(metadata.get("scores"))),
    )
