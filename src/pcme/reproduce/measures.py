"""Measures: metrics of a trained model on a split, as {name: number}.

All values are plain numbers for JSON, or None where a metric is not defined.
"""

import math
import timeit
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pcme import analysis
from pcme.embedding import Gaussian
from pcme.errors import ConfigError
from pcme.evaluation import Subject, evaluate_score
from pcme.reproduce.analyses import analyse, stem
from pcme.reproduce.base import Measure, Measurement
from pcme.scores.base import Score
from pcme.uncertainty.sigma import mean_log_sigma

Figures = Mapping[str, float | None]

TIMED_QUERIES = 500
"""Captions that are scored against all images when a score is timed."""


def measure(measurement: Measurement, subject: Subject, run: Path) -> Figures:
    """Measure one kind of metrics; what else is found goes into the run's folder."""
    values: Mapping[str, float | None]
    if measurement.asked is not None:
        values = analyse(measurement.asked, subject, stem(run, measurement))
    else:
        values = MEASURES[measurement.measure](subject, measurement.scoring.of(subject.model.score()))
    return {name: None if value is None or math.isnan(value) else float(value) for name, value in values.items()}


def _retrieval(subject: Subject, score: Score) -> dict[str, float | None]:
    """Every metric of an evaluation, both directions and the mean of both. Paper: §4.1.1."""
    split = subject.embedded
    result = evaluate_score(score, split.images, split.captions, subject.protocol)
    i2t, t2i = result.i2t.metrics, result.t2i.metrics
    both = {name: (i2t[name] + t2i[name]) / 2 for name in sorted(i2t.keys() & t2i.keys())}
    directions = {"i2t": i2t, "t2i": t2i, "both": both}
    metrics = {f"{d} {name}": v for d, part in directions.items() for name, v in part.items()}
    return {"images": float(result.gallery), "captions": float(result.queries), **metrics}


def _spread(subject: Subject, _: Score) -> dict[str, float | None]:
    """E[log σ] over the items and dimensions of either side. Paper: Table D.1."""
    sides = {"images": subject.embedded.images, "captions": subject.embedded.captions}
    return {
        f"{side} log_sigma": float(mean_log_sigma(items).mean()) if isinstance(items, Gaussian) else None
        for side, items in sides.items()
    }


def _cost(subject: Subject, score: Score) -> dict[str, float | None]:
    """Numbers stored per image, steps and microseconds of one thread per pair. Paper: Table 1."""
    images, captions = subject.embedded.images, subject.embedded.captions[:TIMED_QUERIES]
    cost, pairs = score.cost(images), len(captions) * len(images)
    seconds = min(timeit.repeat(lambda: deque(score.blocks(captions, images), maxlen=0), number=1, repeat=3))
    return {"numbers": cost.numbers, "work": cost.work, "microseconds": 1e6 * seconds / pairs}


def _bins(subject: Subject, _: Score) -> dict[str, float | None]:
    """R@1 in ten bins of rising σ, both directions, by the model's own score; in folds too. Paper: Fig. 6."""
    protocols = ["whole", *(["1k"] if subject.protocol.i2t.folds else [])]
    metrics: dict[str, float | None] = {}
    for protocol in protocols:
        prefix = "" if protocol == "whole" else f"{protocol} "
        for queries in _analyse("bins", subject, protocol=protocol).ways:
            curve = next(each for each in queries.curves if each.metric == "recall@1")
            metrics |= {f"{queries.way} {prefix}bin {n}": value for n, value in enumerate(curve.mean, start=1)}
            metrics[f"{queries.way} {prefix}bins~recall"] = curve.over_bins.value
    return metrics


def _erasing(subject: Subject, _: Score) -> dict[str, float | None]:
    """Mean log σ as more and more pixels or words are erased. Paper: Fig. 7."""
    metrics: dict[str, float | None] = {}
    for curve in _analyse("erasing", subject).curves:
        points = zip(curve.ratio, curve.mean, strict=True)
        metrics |= {f"{curve.way} {ratio:g}": value for ratio, value in points}
        metrics[f"{curve.way} ~ratio"] = curve.correlation.value
    return metrics


def _analyse(name: str, subject: Subject, **params: str) -> Any:  # noqa: ANN401 - the result of the analysis
    chosen = analysis.create(name, **params)
    if (obstacle := chosen.obstacle(subject)) is not None:
        raise ConfigError(f'analysis "{name}": {obstacle}. Remove the row from the experiment.')
    return chosen.compute(subject)


MEASURES: Mapping[Measure, Callable[[Subject, Score], Mapping[str, float | None]]] = {
    "retrieval": _retrieval,
    "spread": _spread,
    "cost": _cost,
    "bins": _bins,
    "erasing": _erasing,
}
