"""The authors' checkpoints as models of this package, with the same embeddings.

The model computes the same as theirs (github.com/naver-ai/pcme), also where the paper says otherwise: the sentence
vector is read at the last word, log σ has no bounds, captions are split by the rules of the Penn Treebank, images are
scaled to 256 and cut to 224. Only image files are decoded differently, upright and with alpha on white.
"""

import hashlib
from pathlib import Path

import torch

from pcme.data.text.tokens import SPECIALS, Vocab
from pcme.errors import FormatError
from pcme.model.authors import pth, to_recipe, vocabulary
from pcme.model.authors.sizes import WORDS, infer_sizes, require_usable
from pcme.model.authors.weights import convert
from pcme.model.model import Model
from pcme.model.origin import Origin, stated


def import_checkpoint(path: str | Path, *, vocab: str | Path | None = None) -> Model:
    """The model in a checkpoint that the authors' trainer wrote.

    `vocab` is the pickle of its words; a checkpoint has them too, and then both must be the same.
    """
    source, where = Path(path), str(path)
    record = pth.read(source)
    ids = _ids(record.word2idx, source, None if vocab is None else Path(vocab))
    require_usable({**record.model, **{f"criterion.{name}": value for name, value in record.criterion.items()}}, where)
    sizes = infer_sizes(record.model, where)
    if sizes.words != len(ids):
        raise FormatError(
            f"{path}: {WORDS} has {sizes.words:,} rows, and {vocab or 'its word2idx'} lists {len(ids):,} words. "
            "Give the vocabulary of this model."
        )
    data = to_recipe.dataset(record.config, len(ids), where)
    recipe = to_recipe.recipe(record.config, sizes, data, where)
    words = sorted(ids.keys() - set(SPECIALS), key=ids.__getitem__)
    model = Model(recipe, Vocab(tuple(words), (1,) * len(words), "treebank"), torch.zeros(len(ids), sizes.word_dim))
    rows = [ids[word] for word in (*SPECIALS, *words)]
    model.load_state_dict(convert(model, record.model, record.criterion, rows, where))
    epoch = record.metadata.get("cur_epoch")
    with source.open("rb") as file:
        model.origin = Origin(
            file=source.name,
            sha256=hashlib.file_digest(file, "sha256").hexdigest(),
            dataset=data,
            epoch=epoch if type(epoch) is int else None,
            scores=dict(stated(record.metadata.get("scores"))),
        )
    return model.eval()


def _ids(word2idx: object, path: Path, vocab: Path | None) -> vocabulary.Ids:
    """The ids of the words in the checkpoint, in the vocabulary's file, or in both alike."""
    if word2idx is None and vocab is None:
        raise FormatError(f"{path}: word2idx is missing. Give the vocabulary's file as --vocab.")
    inside = None if word2idx is None else vocabulary.checked(word2idx, f"{path}: word2idx")
    outside = None if vocab is None else vocabulary.read(vocab)
    if inside is not None and outside is not None and inside != outside:
        raise FormatError(
            f"{vocab}: not the vocabulary of {path}, which has {len(inside):,} words to its {len(outside):,}, or other "
            "ids. Leave out --vocab: the checkpoint has its own."
        )
    return inside or outside or {}
