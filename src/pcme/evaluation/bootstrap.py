"""Bootstrap: confidence intervals over draws of independent clusters.

Items of one class, and captions of one image, share what makes them hard, so whole clusters are drawn with replacement,
never single items: intervals that ignored this would be too narrow. Intervals are of items, not of trainings.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int64

from pcme.core.random import numpy_stream
from pcme.errors import ShapeError
from pcme.evaluation.results import RECALLS, Direction, metric_names, split_name

LEVEL = 0.95
REPLICATES = 2000
RESAMPLES = 1000
"""Replicates of a statistic that is computed draw by draw."""
FEWEST = 2
"""A single cluster says nothing about others."""
AT_ONCE = 2**23
"""Numbers held at a time: replicates come in blocks, so that memory stays bounded."""

PerQuery = Float64[np.ndarray, " q"]
Counts = Float64[np.ndarray, "r c"]
"""How often each cluster was drawn, per replicate."""
Weights = Float64[np.ndarray, " n"]
"""How often each item was drawn."""
Statistic = Callable[[Weights], float | Float64[np.ndarray, " k"]]


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval, which is NaN where there is only one cluster."""

    value: float
    low: float
    high: float


def estimate(statistic: Callable[[Weights], float], clusters: Int[np.ndarray, " n"]) -> Estimate:
    """Return a statistic of all items with its percentile interval over draws of clusters.

    >>> result = estimate(weighted_mean(np.arange(8.0)), np.arange(8))
    >>> result.value, result.low < 3.5 < result.high
    (3.5, True)
    """
    drawn = replicates(statistic, clusters)
    return Estimate(float(statistic(np.ones(len(clusters)))), *percentiles(drawn[:, 0]))


def replicates(statistic: Statistic, clusters: Int[np.ndarray, " n"]) -> Float64[np.ndarray, "r k"]:
    """Return the statistic of each draw: as many clusters as there are, with replacement."""
    kinds, cluster = np.unique(clusters, return_inverse=True)
    if len(kinds) < FEWEST:
        return np.full((RESAMPLES, np.size(statistic(np.ones(len(clusters))))), np.nan)
    blocks = _draws(len(kinds), RESAMPLES, numpy_stream(0, "analysis", "bootstrap"))
    rows = [np.atleast_1d(statistic(drawn[cluster])) for block in blocks for drawn in block]
    return np.stack(rows).astype(np.float64)


def intervals(
    direction: Direction, names: Sequence[str] | None = None, *, replicates: int = REPLICATES
) -> dict[str, Estimate]:
    """Return the metrics called by `names` (all by default) with their bootstrap intervals.

    >>> values = {"recall@1": np.array([0.0, 1.0, 1.0, 1.0])}
    >>> alone = np.arange(4)
    >>> intervals(Direction(values, ("a", "b", "c", "d"), 9, alone, 0 * alone - 1))
    {'recall@1': Estimate(value=0.75, low=0.25, high=1.0)}
    """
    wanted = list(metric_names(direction.values) if names is None else names)
    drawn = resample(direction, wanted, replicates=replicates)
    return {name: Estimate(direction.metric(name), *percentiles(drawn[:, i])) for i, name in enumerate(wanted)}


def resample(direction: Direction, names: Sequence[str], *, replicates: int = REPLICATES) -> Float64[np.ndarray, "r f"]:
    """Return each metric of each replicate; directions with the same clusters get the same draws.

    NaN where nothing that was drawn has a relevant item, and everywhere with a single cluster.
    """
    kinds, cluster = np.unique(direction.clusters, return_inverse=True)
    if len(kinds) < FEWEST:
        return np.full((replicates, len(names)), np.nan)
    blocks = _draws(len(kinds), replicates, numpy_stream(0, "bootstrap"), len(direction))
    parts = [[_metric(direction, name, drawn, cluster) for name in names] for drawn in blocks]
    return np.concatenate([np.stack(part, axis=1) for part in parts])


def percentiles(values: Float64[np.ndarray, " r"]) -> tuple[float, float]:
    """Return the ends of the middle 95 % of some values, NaN aside.

    >>> [round(end) for end in percentiles(np.arange(201.0))]
    [5, 195]
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return low, high


def weighted_mean(values: Float[np.ndarray, " n"] | Bool[np.ndarray, " n"]) -> Callable[[Weights], float]:
    """Return the mean (the share) of the items as often as they were drawn, as a function of the draw."""
    return lambda weights: float(np.average(values, weights=weights))


def spearman(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> Callable[[Weights], float]:
    """Return Spearman's ρ as a function of the draw; NaN where either side is constant.

    The ranks of a draw follow from counts in the order of all items: nothing is sorted again.

    >>> round(spearman(np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 3.0]))(np.ones(3)), 6)
    0.5
    """
    if x.shape != y.shape or x.ndim != 1:
        raise ShapeError(f"x and y: must be lists of one length, got {x.shape} and {y.shape}.")
    first, second = (np.unique(values, return_inverse=True)[1] for values in (x, y))
    return lambda weights: _correlation(_ranks(first, weights), _ranks(second, weights), weights)


def _draws(clusters: int, replicates: int, generator: np.random.Generator, held: int | None = None) -> Iterator[Counts]:
    """Blocks of counts of clusters drawn with replacement; a block's user holds `held` numbers per replicate."""
    at_once = max(1, AT_ONCE // (held or clusters))
    for start in range(0, replicates, at_once):
        count = min(at_once, replicates - start)
        drawn = generator.integers(clusters, size=(count, clusters)) + np.arange(count)[:, None] * clusters
        yield np.bincount(drawn.ravel(), minlength=drawn.size).reshape(count, clusters).astype(np.float64)


def _metric(
    direction: Direction, name: str, weights: Counts, cluster: Int64[np.ndarray, " q"]
) -> Float64[np.ndarray, " r"]:
    """`Direction.metric` with each query counted as often as its cluster was drawn."""
    prefix, base = split_name(name)
    if base == "rsum":
        recalls = [_metric(direction, prefix + part, weights, cluster) for part in RECALLS]
        return np.asarray(np.sum(recalls, axis=0))
    values = direction.per_query(name)
    middle = _medians if base == "median_rank" else _means
    known = [rows for rows in direction.parts(name) if not np.isnan(values[rows]).all()]
    within = [middle(values[rows], weights, cluster[rows]) for rows in known]
    return np.mean(within, axis=0) if within else np.full(len(weights), np.nan)


def _means(values: PerQuery, weights: Counts, cluster: Int64[np.ndarray, " q"]) -> Float64[np.ndarray, " r"]:
    known = ~np.isnan(values)
    sums, counts = (
        weights @ np.bincount(cluster[known], each, weights.shape[1])
        for each in (values[known], np.ones(np.count_nonzero(known)))
    )
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _medians(ranks: PerQuery, weights: Counts, cluster: Int64[np.ndarray, " q"]) -> Float64[np.ndarray, " r"]:
    """The median of ranks that count as often as drawn, rounded down as the protocol does."""
    known = np.flatnonzero(~np.isnan(ranks))
    order = known[np.argsort(ranks[known], kind="stable")]
    reached = np.cumsum(weights[:, cluster[order]], axis=1)
    half = reached[:, -1:] / 2
    # an even number of draws has two middle ones: the last up to half, the first beyond it
    lower, upper = (reached < half).sum(1), (reached <= half).sum(1)
    last = len(order) - 1
    middle = (ranks[order[lower.clip(max=last)]] + ranks[order[upper.clip(max=last)]]) / 2
    return np.where(reached[:, -1] > 0, np.floor(middle), np.nan)


def _ranks(order: Int64[np.ndarray, " n"], weights: Weights) -> Float64[np.ndarray, " n"]:
    """The middle rank of each value, in a list where each item stands as often as it weighs."""
    counts = np.bincount(order, weights)
    middle: Float64[np.ndarray, " v"] = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(middle[order])


def _correlation(x: Float64[np.ndarray, " n"], y: Float64[np.ndarray, " n"], weights: Weights) -> float:
    drawn = weights > 0
    if min(np.ptp(x[drawn]), np.ptp(y[drawn])) == 0:
        return float("nan")
    x, y = (values - np.average(values, weights=weights) for values in (x, y))
    spread = float(weights @ x**2) * float(weights @ y**2)
    return float(weights @ (x * y) / np.sqrt(spread))
