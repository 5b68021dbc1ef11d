"""Statistics of a confidence: calibration error, separation (AUROC), rank correlation. Paper: §4.4."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float64
from scipy import stats

from pcme.errors import DataError, ShapeError


@dataclass
class Binned:
    """Values from `low` to `high` in equal bins, and how many of them are true; filled block by block."""

    bins: int
    count: Float64[np.ndarray, " bins"] = field(init=False)
    total: Float64[np.ndarray, " bins"] = field(init=False)
    """The sum of the values per bin, for their mean."""
    true: Float64[np.ndarray, " bins"] = field(init=False)
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        self.count, self.total, self.true = np.zeros((3, self.bins))

    def add(self, values: Float[np.ndarray, "*n"], truth: Bool[np.ndarray, "*n"]) -> None:
        """Add values, and whether each is true."""
        if values.shape != truth.shape:
            raise ShapeError(f"values and truth: must have one shape, got {values.shape} and {truth.shape}.")
        x, per_unit = values.ravel(), self.bins / (self.high - self.low)
        index = np.minimum(((x - self.low) * per_unit).astype(np.int64), self.bins - 1)
        self.count += np.bincount(index, minlength=self.bins)
        self.total += np.bincount(index, x.astype(np.float64), self.bins)
        self.true += np.bincount(index[truth.ravel()], minlength=self.bins)

    def filled(self) -> Float64[np.ndarray, "3 b"]:
        """(count, total, true) of the bins that are not empty."""
        return np.stack((self.count, self.total, self.true))[:, self.count > 0]


@dataclass
class Calibration(Binned):
    """How often statements of probability p are true.

    >>> counted = Calibration(bins=2)
    >>> counted.add(np.array([0.2, 0.2, 0.9]), np.array([True, False, True]))
    >>> round(counted.error, 3)  # 2/3 · |0.2 - 0.5| + 1/3 · |0.9 - 1|
    0.233
    """

    bins: int = 15

    def add(self, values: Float[np.ndarray, "*n"], truth: Bool[np.ndarray, "*n"]) -> None:
        """Add probabilities, and whether each statement is true."""
        if not (np.all(values >= 0) and np.all(values <= 1)):
            raise DataError(f"p: must lie in [0, 1], got {values.min():g} to {values.max():g}.")
        super().add(values, truth)

    @property
    def error(self) -> float:
        """The expected calibration error: mean gap between probability and truth over all pairs."""
        return float(np.abs(self.total - self.true).sum() / max(self.count.sum(), 1))

    @property
    def reliability(self) -> tuple[tuple[float, float, int], ...]:
        """(mean probability, share that is true, count) of each bin that is not empty."""
        count, total, true = self.filled()
        return tuple(zip((total / count).tolist(), (true / count).tolist(), count.astype(int).tolist(), strict=True))


def auroc(positive: Float[np.ndarray, " n"], negative: Float[np.ndarray, " m"]) -> float:
    """The chance that a positive's value lies above a negative's, ties counting half.

    >>> auroc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    if not len(positive) or not len(negative):
        raise DataError(f"auroc: both kinds are needed, got {len(positive)} and {len(negative)}.")
    ranks = stats.rankdata(np.concatenate([positive, negative]))[: len(positive)]
    above = ranks.sum() - len(positive) * (len(positive) + 1) / 2
    return float(above / (len(positive) * len(negative)))


def rank_correlation(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> float:
    """Spearman's ρ; NaN where either is constant, since then there is no order to agree with.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 100.0]))
    1.0
    """
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise ShapeError(f"x and y: need one length, at least 2, got {x.shape} and {y.shape}.")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1])
