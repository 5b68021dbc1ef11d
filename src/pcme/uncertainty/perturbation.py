"""What σ says of an item, and whether it is true: bins of σ, and σ of items that are spoiled.

Paper: §4.4, Fig. 6 (R@1 falls over bins of σ) and Fig. 7 (σ grows as pixels or words are erased).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, UInt8
from torch import Tensor

from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.transforms import erase
from pcme.data.text.perturbation import append_unknown, erase_words
from pcme.embedding import Embedding, Gaussian, joined
from pcme.errors import ConfigError, DataError, ShapeError
from pcme.model import Model
from pcme.uncertainty.statistics import rank_correlation

__all__ = [
    "RATIOS",
    "WORDS",
    "Bins",
    "binned",
    "chosen",
    "delete_words",
    "embed_words",
    "spoiled",
    "spoiled_captions",
    "spoiled_images",
    "width",
]

RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the pixels or words that are erased."""

BATCH = 256
"""Captions embedded at a time."""

Words = Sequence[str]


@dataclass(frozen=True)
class Bins:
    """Items in equally many of rising σ: the middle of σ and the mean of something in each."""

    width: Float64[np.ndarray, " bins"]
    value: Float64[np.ndarray, " bins"]

    @property
    def correlation(self) -> float:
        """Spearman's ρ of the bins' values with their order."""
        return rank_correlation(np.arange(float(len(self.value))), self.value)


def width(items: Embedding) -> Float64[np.ndarray, " n"]:
    """Mean log σ of each item: the log of the geometric mean of σ, the paper's uncertainty."""
    if not isinstance(items, Gaussian):
        raise DataError("points have no sigma - use a method that has one, such as pcme")
    return items.log_sigma.to(torch.float64).mean(1).numpy()


def binned(
    widths: Float64[np.ndarray, " n"], values: Float[np.ndarray, " n"], *, bins: int = 10
) -> Bins:
    """The items in `bins` of equal count, from the narrowest to the widest.

    Paper: Fig. 6.

    >>> binned(np.array([3.0, 1.0, 2.0, 4.0]), np.array([0.0, 1.0, 1.0, 0.0]), bins=2).value
    array([1., 0.])
    """
    if widths.shape != values.shape or widths.ndim != 1 or not 1 <= bins <= len(widths):
        raise ShapeError(
            f"two lists of one length, at least one item a bin - got {widths.shape} and "
            f"{values.shape} for {bins} bins"
        )
    parts = np.array_split(np.argsort(widths, kind="stable"), bins)
    return Bins(
        np.array([np.median(widths[part]) for part in parts]),
        np.array([values[part].mean() for part in parts], np.float64),
    )


def delete_words(words: Words, generator: np.random.Generator, ratio: float) -> list[str]:
    """The words without round(ratio·L) of them, drawn at random; nested, as `erase_words` is.

    With the same seed it takes away the words that `erase_words` makes `<unk>`.

    >>> delete_words(["a", "small", "bird"], np.random.default_rng(0), 0.3)
    ['a', 'small']
    """
    if not 0 <= ratio <= 1:
        raise ConfigError(f"ratio must be from 0 to 1 - got {ratio}")
    gone = set(generator.permutation(len(words))[: round(ratio * len(words))].tolist())
    return [word for position, word in enumerate(words) if position not in gone]


WORDS: Mapping[str, Callable[[Words, np.random.Generator, float], list[str]]] = MappingProxyType(
    {
        "replaced": erase_words,
        "deleted": delete_words,
        "appended": lambda words, generator, ratio: append_unknown(words, ratio=ratio),
    }
)
"""Ways to spoil a caption: a share of its words becomes `<unk>`, or goes, or so many `<unk>`s
follow it. Paper: Fig. 7, and §F.1 for the last."""


def spoiled(
    model: Model, dataset: CaptionDataset, *, captions: int = 300, images: int = 300
) -> tuple[Float64[np.ndarray, "n r"], Float64[np.ndarray, "k r"]]:
    """Mean log σ of captions and of images with RATIOS of their words, or pixels, erased.

    Of so many of them, chosen at random but always the same. Paper: Fig. 7.
    """
    some_captions, some_images = chosen(dataset, captions=captions, images=images)
    return (
        spoiled_captions(model, dataset, some_captions, "replaced"),
        spoiled_images(model, dataset, some_images),
    )


def chosen(
    dataset: CaptionDataset, *, captions: int, images: int
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " k"]]:
    """So many captions and images, or all there are, at random but always the same."""
    drawn = numpy_stream(0, "spoiled")
    return (
        drawn.permutation(len(dataset.captions))[:captions],
        drawn.permutation(len(dataset.images))[:images],
    )


def spoiled_captions(
    model: Model,
    dataset: CaptionDataset,
    captions: Int64[np.ndarray, " n"],
    way: str,
    *,
    ratios: Sequence[float] = RATIOS,
    progress: Progress = silent,
) -> Float64[np.ndarray, "n r"]:
    """Mean log σ of these captions, spoiled in one of the ways of WORDS by each of the ratios.

    What is gone at one ratio is gone at all larger ones: a caption has one stream.
    """
    if way not in WORDS:
        raise ConfigError(f'unknown way to spoil a caption "{way}" - known: {", ".join(WORDS)}')
    sentences = [model.tokeniser.split(dataset.captions[i]) for i in captions.tolist()]
    columns = []
    for done, ratio in enumerate(ratios, start=1):
        spoilt = [
            WORDS[way](words, numpy_stream(0, "erased words", i), ratio)
            for i, words in enumerate(sentences)
        ]
        columns.append(width(embed_words(model, spoilt)))
        progress("captions", done, len(ratios))
    return np.stack(columns, 1)


def spoiled_images(
    model: Model,
    dataset: CaptionDataset,
    images: Int64[np.ndarray, " n"],
    *,
    ratios: Sequence[float] = RATIOS,
    progress: Progress = silent,
) -> Float64[np.ndarray, "n r"]:
    """Mean log σ of these images with each of the ratios of their pixels erased, nested."""
    pictures = [model.transform(dataset.images.load(i)) for i in images.tolist()]
    columns = []
    for done, ratio in enumerate(ratios, start=1):
        columns.append(width(_erased_pixels(model, pictures, ratio)))
        progress("images", done, len(ratios))
    return np.stack(columns, 1)


@torch.no_grad()
def embed_words(model: Model, sentences: Sequence[Words]) -> Embedding:
    """The embeddings of captions given as words."""
    model.eval()
    parts = [sentences[i : i + BATCH] for i in range(0, len(sentences), BATCH)]
    return joined([model.embed_tokens(model.tokeniser.encode_batch(part)) for part in parts])


def _erased_pixels(
    model: Model, pictures: Sequence[UInt8[Tensor, "3 h w"]], ratio: float
) -> Embedding:
    return model.encode_images(
        [erase(p, ratio, numpy_stream(0, "erased pixels", i)) for i, p in enumerate(pictures)]
    )
