"""Compare runs on the same queries: paired differences, bootstrap intervals, permutation tests.

Differences are taken per query. The interval is the bootstrap's, the p-value that of a permutation test: if the runs
were alike, the two values of a cluster of queries (a class, or an image without classes) could be exchanged. Neither
covers another training of the same recipe: for that, train more seeds.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.errors import ConfigError, DataError
from pcme.evaluation.bootstrap import AT_ONCE, Estimate, percentiles, resample
from pcme.evaluation.evaluate import evaluate
from pcme.evaluation.results import DIRECTIONS, FOLDED, RECALLS, Direction, DirectionName, Evaluation, split_name

PERMUTATIONS = 10_000
METRICS = ("r_precision", *RECALLS, "rsum", "map@r", "mean_rank", "pmrp", "pmrp@0", "pmrp@1", "pmrp@2")
"""Metrics that can be compared: means over queries, hence no median."""
PREFIXES = ("", FOLDED, "eccv ", "cxc ")


@dataclass(frozen=True)
class Difference:
    """How much better a run is than the first one, in one direction."""

    run: str
    direction: DirectionName
    difference: Estimate
    p: float
    """Two-sided, of this comparison alone."""
    adjusted: float
    """By Holm's method, for all comparisons with the first run in this direction."""


@dataclass(frozen=True)
class Comparison:
    """Runs by one metric: the evaluation of each, and the differences from the first."""

    metric: str
    results: dict[str, Evaluation]
    differences: tuple[Difference, ...]

    @property
    def base(self) -> str:
        """The first run, which the others are compared with."""
        return next(iter(self.results))


def compare(
    runs: Sequence[str | Path],
    *,
    metric: str = "r_precision",
    data_root: Path | None = None,
    split: str = "test",
    workers: int = 2,
    progress: Progress = silent,
) -> Comparison:
    """Runs, or files that `pcme evaluate --out` wrote, against the first of them."""
    checked_metric(metric)
    names = [str(run) for run in runs]
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise ConfigError(f"runs: must be two or more different ones, got {', '.join(names) or 'none'}.")

    def result(run: str) -> Evaluation:
        if run.endswith(".npz"):
            return Evaluation.load(run)

        def report(task: str, done: int, total: int | None, /) -> None:
            progress(f"{run}: {task}", done, total)

        return evaluate(run, data_root=data_root, split=split, workers=workers, progress=report).results[0]

    return compare_evaluations({name: result(name) for name in names}, metric)


def compare_evaluations(results: dict[str, Evaluation], metric: str = "r_precision") -> Comparison:
    """Evaluations of the same queries, by name, against the first of them."""
    checked_metric(metric)
    base, *others = results
    for name in others:
        _require_same_queries(base, results[base], name, results[name])
        if split_name(metric)[1].startswith("pmrp"):
            _require_same_labels(base, results[base], name, results[name])
    differences = (_differences({n: r.direction(way) for n, r in results.items()}, way, metric) for way in DIRECTIONS)
    return Comparison(metric, results, tuple(chain.from_iterable(differences)))


def checked_metric(metric: str) -> str:
    """A metric that can be compared, or an error that names those that can.

    >>> checked_metric("recall@1")
    'recall@1'
    """
    known = [prefix + name for prefix in PREFIXES for name in METRICS]
    if metric not in known:
        near = difflib.get_close_matches(metric, known, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise ConfigError(
            f'"{metric}" is not a metric that can be compared.{hint} Known: {", ".join(METRICS)}; '
            'on COCO also with "1k " before it for its folds, "eccv " or "cxc " for what others have judged.'
        )
    return metric


def _require_same_queries(base: str, first: Evaluation, name: str, other: Evaluation) -> None:
    if first.digest != other.digest:
        asked = [
            f"{each.dataset} with {each.gallery:,} images and {each.queries:,} captions" for each in (first, other)
        ]
        raise DataError(
            f"{base} and {name}: must have the same queries, got {' and '.join(asked)}, "
            "or other captions, images or matches. Evaluate both on one split of the same data."
        )


def _require_same_labels(base: str, first: Evaluation, name: str, other: Evaluation) -> None:
    if first.labels != other.labels:
        labels = " and ".join(each.labels[:8] or "none on record" for each in (first, other))
        raise DataError(
            f"{base} and {name}: must have the same labels for PMRP, got {labels}. Evaluate both with the same labels."
        )


def _differences(runs: dict[str, Direction], direction: DirectionName, metric: str) -> list[Difference]:
    """All runs of one direction against the first."""
    base, *others = runs
    drawn = {name: resample(run, [metric])[:, 0] for name, run in runs.items()}
    tested = [_p_value(_shares(runs[base], runs[name], metric)) for name in others]
    differences = []
    for name, p, adjusted in zip(others, tested, _holm(tested), strict=True):
        value = runs[name].metric(metric) - runs[base].metric(metric)
        span = Estimate(value, *percentiles(drawn[name] - drawn[base]))
        differences.append(Difference(name, direction, span, p, adjusted))
    return differences


def _shares(base: Direction, other: Direction, metric: str) -> Float64[np.ndarray, " c"]:
    """The contribution of each cluster to the difference of the two metrics."""
    gained = other.per_query(metric) - base.per_query(metric)
    part = base.folds if metric.startswith(FOLDED) else np.zeros(len(base), np.int64)
    counted = ~np.isnan(gained) & (part >= 0)
    sizes = np.bincount(part[counted], minlength=1)
    # a query weighs 1/n, or within folds 1/n of its fold over the number of folds
    weights = np.where(counted, 1 / np.maximum(sizes[part] * np.count_nonzero(sizes), 1), 0.0)
    _, cluster = np.unique(base.clusters, return_inverse=True)
    return np.bincount(cluster, np.nan_to_num(gained) * weights)


def _p_value(shares: Float64[np.ndarray, " c"]) -> float:
    """How often exchanged clusters differ as much; never 0, since what was seen is one of them."""
    generator = numpy_stream(0, "permutations")
    observed = abs(shares.sum())
    limit = observed * (1 - 1e-12)  # the same sum in another order is no smaller
    step, extreme = max(1, AT_ONCE // len(shares)), 0
    for start in range(0, PERMUTATIONS, step):
        count = min(step, PERMUTATIONS - start)
        signs = generator.integers(0, 2, (count, len(shares)), np.int8) * 2 - 1
        extreme += int(np.count_nonzero(np.abs(signs @ shares) >= limit))
    return (extreme + 1) / (PERMUTATIONS + 1)


def _holm(values: Sequence[float]) -> list[float]:
    """p-values that hold for all comparisons together (Holm 1979).

    >>> _holm([0.04, 0.01, 0.5])
    [0.08, 0.03, 0.5]
    """
    order = np.argsort(values, kind="stable")
    steps = np.array(values)[order] * np.arange(len(values), 0, -1)
    adjusted: list[float] = np.minimum(np.maximum.accumulate(steps), 1)[np.argsort(order)].tolist()
    return adjusted
