"""What σ says of an item, and whether it is true: bins of σ, and σ of items that are spoiled.

Paper: §4.4, Fig. 6 (R@1 falls over bins of σ) and Fig. 7 (σ grows as pixels or words are erased).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, UInt8
from torch import Tensor

from pcme.calibration import rank_correlation
from pcme.data.dataset import CaptionDataset
from pcme.data.streams import stream
from pcme.data.text import erase_words
from pcme.data.transforms import erase
from pcme.embedding import Embedding, Gaussian
from pcme.errors import DataError, ShapeError
from pcme.model import Model

__all__ = ["RATIOS", "Bins", "binned", "spoiled", "width"]

RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the pixels or words that are erased."""


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


def spoiled(
    model: Model, dataset: CaptionDataset, *, captions: int = 300, images: int = 300
) -> tuple[Float64[np.ndarray, "n r"], Float64[np.ndarray, "n r"]]:
    """Mean log σ of captions and of images with RATIOS of their words, or pixels, erased.

    Of so many of them, chosen at random but always the same. Paper: Fig. 7.
    """
    drawn = stream(0, "spoiled")
    chosen = drawn.permutation(len(dataset.captions))[:captions].tolist()
    sentences = [model.tokeniser.split(dataset.captions[i]) for i in chosen]
    shown = drawn.permutation(len(dataset.images))[:images].tolist()
    pictures = [model.transform(dataset.images.load(i)) for i in shown]
    by_words = [width(_erased_words(model, sentences, ratio)) for ratio in RATIOS]
    by_pixels = [width(_erased_pixels(model, pictures, ratio)) for ratio in RATIOS]
    return np.stack(by_words, 1), np.stack(by_pixels, 1)


def _erased_words(model: Model, sentences: Sequence[Sequence[str]], ratio: float) -> Embedding:
    # one stream a sentence, so that what is erased at one ratio is erased at all larger ones
    erased = [
        erase_words(words, stream(0, "erased words", i), ratio) for i, words in enumerate(sentences)
    ]
    with torch.no_grad():
        return model.eval().embed_tokens(model.tokeniser.encode_batch(erased))


def _erased_pixels(
    model: Model, pictures: Sequence[UInt8[Tensor, "3 h w"]], ratio: float
) -> Embedding:
    return model.encode_images(
        [erase(p, ratio, stream(0, "erased pixels", i)) for i, p in enumerate(pictures)]
    )
