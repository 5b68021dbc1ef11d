"""Figures with an interval: the bootstrap over what is independent.

A statistic is a function of weights, how often each item was drawn. Images of one class, and the
captions of one image, share what makes them hard, so whole clusters are drawn, never single items
(as in `pcme.evaluation.bootstrap`). Intervals are of items, not of trainings.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int, Int64

from pcme.core.random import numpy_stream
from pcme.errors import ShapeError
from pcme.evaluation.bootstrap import percentiles

__all__ = ["RESAMPLES", "Estimate", "estimated", "mean", "replicates", "spearman"]

RESAMPLES = 1000
FEWEST = 2
"""A single cluster says nothing of others."""

Weights = Float64[np.ndarray, " n"]
Statistic = Callable[[Weights], float | Float64[np.ndarray, " k"]]


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval, which is NaN where there is but one cluster."""

    value: float
    low: float
    high: float


def estimated(
    statistic: Callable[[Weights], float],
    clusters: Int[np.ndarray, " n"],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """A statistic of all items, and the middle 95 % of it over draws of clusters.

    >>> x = np.arange(8.0)
    >>> found = estimated(mean(x), np.arange(8))
    >>> found.value, found.low < 3.5 < found.high
    (3.5, True)
    """
    value = float(statistic(np.ones(len(clusters))))
    drawn = replicates(statistic, clusters, resamples=resamples, seed=seed)
    interval = percentiles(drawn[:, 0])
    return Estimate(value, interval.low, interval.high)


def replicates(
    statistic: Statistic,
    clusters: Int[np.ndarray, " n"],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Float64[np.ndarray, "r k"]:
    """The statistic of each draw: as many clusters as there are, with replacement."""
    kinds, cluster = np.unique(clusters, return_inverse=True)
    if len(kinds) < FEWEST:
        one = np.atleast_1d(statistic(np.ones(len(clusters))))
        return np.full((resamples, len(one)), np.nan)
    generator = numpy_stream(seed, "analysis", "bootstrap")
    rows = []
    for _ in range(resamples):
        drawn = np.bincount(generator.integers(len(kinds), size=len(kinds)), minlength=len(kinds))
        rows.append(np.atleast_1d(statistic(drawn[cluster].astype(np.float64))))
    return np.stack(rows).astype(np.float64)


def mean(values: Float[np.ndarray, " n"]) -> Callable[[Weights], float]:
    """The weighted mean."""
    return lambda weights: float(np.average(values, weights=weights))


def spearman(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> Callable[[Weights], float]:
    """Spearman's ρ of the items as often as they were drawn; NaN where either is constant.

    The ranks of a draw follow from counts in the order of all items: nothing is sorted again.

    >>> round(spearman(np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 3.0]))(np.ones(3)), 6)
    0.5
    """
    if x.shape != y.shape or x.ndim != 1:
        raise ShapeError(f"two lists of one length are compared - got {x.shape} and {y.shape}")
    places = [np.unique(values, return_inverse=True)[1] for values in (x, y)]

    def statistic(weights: Weights) -> float:
        first, second = (_ranks(place, weights) for place in places)
        return _correlation(first, second, weights)

    return statistic


def _ranks(place: Int64[np.ndarray, " n"], weights: Weights) -> Float64[np.ndarray, " n"]:
    """The middle rank of each value, in a list where each item stands as often as it weighs."""
    counts = np.bincount(place, weights)
    middle: Float64[np.ndarray, " v"] = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(middle[place])


def _correlation(
    x: Float64[np.ndarray, " n"], y: Float64[np.ndarray, " n"], weights: Weights
) -> float:
    drawn = weights > 0
    if min(np.ptp(x[drawn]), np.ptp(y[drawn])) == 0:
        return float("nan")
    x, y = (values - np.average(values, weights=weights) for values in (x, y))
    spread = float(weights @ x**2) * float(weights @ y**2)
    return float(weights @ (x * y) / np.sqrt(spread))
