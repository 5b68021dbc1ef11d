"""Intervals: how far a figure may be from that of other queries of the same kind.

The bootstrap draws queries with replacement and computes the figure again. Queries of one class, or
captions of one image, share what makes them hard, so whole classes (images where there are none)
are drawn, never single queries: intervals that ignored this would be too narrow. What they say is
of queries, not of trainings: another seed's model is another matter.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from pcme.core.random import numpy_stream
from pcme.evaluation.results import FOLDED, RECALLS, Direction, figure_names, split_name

__all__ = ["REPLICATES", "Interval", "intervals", "percentiles", "resampled"]

LEVEL = 0.95
REPLICATES = 2000

AT_ONCE = 2**23
"""Numbers held at a time: replicates come in blocks, so that memory stays bounded."""

PerQuery = Float64[np.ndarray, " q"]
Weights = Float64[np.ndarray, "r c"]
"""How often each cluster was drawn, replicate by replicate."""


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`; both NaN where a single cluster says nothing of others."""

    low: float
    high: float


def intervals(
    direction: Direction,
    names: Sequence[str] | None = None,
    *,
    level: float = LEVEL,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> dict[str, Interval]:
    """The percentile bootstrap interval of each figure called by `names` (all of them by default).

    >>> values = {"recall@1": np.array([0.0, 1.0, 1.0, 1.0])}
    >>> alone = np.arange(4)
    >>> intervals(Direction(values, ("a", "b", "c", "d"), 9, alone, 0 * alone - 1))
    {'recall@1': Interval(low=0.25, high=1.0)}
    """
    wanted = list(figure_names(direction.values) if names is None else names)
    found = resampled(direction, wanted, replicates=replicates, seed=seed)
    return {name: percentiles(found[:, i], level) for i, name in enumerate(wanted)}


def resampled(
    direction: Direction, names: Sequence[str], *, replicates: int = REPLICATES, seed: int = 0
) -> Float64[np.ndarray, "r f"]:
    """Each figure of each replicate; directions with the same clusters get the same draws.

    NaN where nothing that was drawn has a right answer, and everywhere when there is one cluster.
    """
    kinds, cluster = np.unique(direction.clusters, return_inverse=True)
    if len(kinds) < 2:
        return np.full((replicates, len(names)), np.nan)
    blocks = _draws(len(kinds), replicates, seed, max(1, AT_ONCE // len(direction)))
    parts = [[_figure(direction, name, drawn, cluster) for name in names] for drawn in blocks]
    return np.concatenate([np.stack(part, axis=1) for part in parts])


def percentiles(values: Float64[np.ndarray, " r"], level: float = LEVEL) -> Interval:
    """The middle `level` of some values, NaN aside.

    >>> percentiles(np.arange(101.0), 0.5)
    Interval(low=25.0, high=75.0)
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return Interval(math.nan, math.nan)
    return Interval(*np.quantile(known, [(1 - level) / 2, (1 + level) / 2]).tolist())


def _draws(clusters: int, replicates: int, seed: int, at_once: int) -> Iterator[Weights]:
    """Blocks of weights: as many clusters as there are, drawn with replacement."""
    generator = numpy_stream(seed, "bootstrap")
    for start in range(0, replicates, at_once):
        count = min(at_once, replicates - start)
        drawn = generator.integers(clusters, size=(count, clusters))
        rows = np.arange(count)[:, None] * clusters
        weights = np.bincount((drawn + rows).ravel(), minlength=count * clusters)
        yield weights.reshape(count, clusters).astype(np.float64)


def _figure(
    direction: Direction, name: str, weights: Weights, cluster: Int64[np.ndarray, " q"]
) -> Float64[np.ndarray, " r"]:
    """`Direction.figure` with each query counted as often as its cluster was drawn."""
    prefix, base = split_name(name)
    if base == "rsum":
        parts = [_figure(direction, prefix + part, weights, cluster) for part in RECALLS]
        return np.asarray(np.sum(parts, axis=0))
    ranks = base in ("median_rank", "mean_rank")
    values = direction.of(prefix + ("rank" if ranks else base))
    middle = _medians if base == "median_rank" else _means
    within = [
        middle(values[some], weights, cluster[some])
        for some in _parts(direction, name)
        if not np.isnan(values[some]).all()
    ]
    return np.mean(within, axis=0) if within else np.full(len(weights), np.nan)


def _parts(direction: Direction, name: str) -> list[Bool[np.ndarray, " q"]]:
    """Which queries are averaged together: all, or those of each fold."""
    if not name.startswith(FOLDED):
        return [np.ones(len(direction), np.bool_)]
    return [direction.folds == fold for fold in range(direction.folds.max() + 1)]


def _means(
    values: PerQuery, weights: Weights, cluster: Int64[np.ndarray, " q"]
) -> Float64[np.ndarray, " r"]:
    known = ~np.isnan(values)
    sums, counts = (
        weights @ np.bincount(cluster[known], each, weights.shape[1])
        for each in (values[known], np.ones(np.count_nonzero(known)))
    )
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _medians(
    ranks: PerQuery, weights: Weights, cluster: Int64[np.ndarray, " q"]
) -> Float64[np.ndarray, " r"]:
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
