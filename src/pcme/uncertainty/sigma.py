"""σ of items: its mean log per item, and items in bins of rising σ. Paper: §4.4, Fig. 6."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64

from pcme.embedding import Embedding, Gaussian
from pcme.errors import DataError, ShapeError
from pcme.uncertainty.statistics import rank_correlation


@dataclass(frozen=True)
class EqualBins:
    """Items in bins of equal count and rising σ: the median log σ and the mean value per bin."""

    width: Float64[np.ndarray, " bins"]
    value: Float64[np.ndarray, " bins"]

    @property
    def correlation(self) -> float:
        """Spearman's ρ of the bins' values with their order."""
        return rank_correlation(np.arange(float(len(self.value))), self.value)


def mean_log_sigma(items: Embedding) -> Float64[np.ndarray, " n"]:
    """Mean log σ per item, in float64: the log of the paper's uncertainty."""
    if not isinstance(items, Gaussian):
        raise DataError("points have no sigma. Use a method that has one, such as pcme.")
    return items.log_sigma.to(torch.float64).mean(1).numpy()


def bin_by_sigma(
    log_sigma: Float64[np.ndarray, " n"],
    values: Float[np.ndarray, " n"],
    *,
    bins: int = 10,
    place: Float64[np.ndarray, " n"] | None = None,
) -> EqualBins:
    """Group items in `bins` of equal count, from the least uncertain to the most. Paper: Fig. 6.

    They are ordered by `place`, where it is not the uncertainty itself.

    >>> bin_by_sigma(np.array([3.0, 1.0, 2.0, 4.0]), np.array([0.0, 1.0, 1.0, 0.0]), bins=2).value
    array([1., 0.])
    """
    if log_sigma.shape != values.shape or log_sigma.ndim != 1 or not 1 <= bins <= len(log_sigma):
        shapes = f"{log_sigma.shape} and {values.shape} for {bins} bins"
        raise ShapeError(f"log_sigma and values: need one length and at least one item per bin, got {shapes}.")
    parts = np.array_split(np.argsort(log_sigma if place is None else place, kind="stable"), bins)
    return EqualBins(
        np.array([np.median(log_sigma[part]) for part in parts]),
        np.array([values[part].mean() for part in parts], np.float64),
    )
