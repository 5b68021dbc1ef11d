"""Measures: what can be asked of a trained model on a split, as {name: number}.

All figures are plain numbers, or None where a query has no right answer, so that they lie in JSON.
"""

import math
import time
from collections.abc import Callable, Mapping

from pcme import analysis
from pcme.analysis.bins import SigmaBins
from pcme.analysis.erasing import Spoilings
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError
from pcme.evaluation import Subject, evaluated
from pcme.reproduce.base import Ask, Measure
from pcme.scores.base import Score
from pcme.uncertainty.perturbation import width

__all__ = ["Figures", "measured"]

Figures = Mapping[str, float | None]

TIMED_QUERIES = 500
"""So many captions are scored against all images when a score is timed."""


def measured(ask: Ask, subject: Subject) -> Figures:
    """The figures that are asked for."""
    found = MEASURES[ask.measure](subject, ask.scoring.of(subject.model.score()))
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def _retrieval(subject: Subject, score: Score) -> dict[str, float | None]:
    """Every figure of an evaluation, both ways and the mean of both. Paper: §4.1.1."""
    part = subject.embedded
    found = evaluated(score, part.images, part.captions, subject.protocol)
    i2t, t2i = found.i2t.figures, found.t2i.figures
    both = {name: (i2t[name] + t2i[name]) / 2 for name in i2t.keys() & t2i.keys()}
    ways = {"i2t": i2t, "t2i": t2i, "both": dict(sorted(both.items()))}
    figures = {f"{way} {name}": v for way, part in ways.items() for name, v in part.items()}
    return {"images": float(found.gallery), "captions": float(found.queries), **figures}


def _spread(subject: Subject, _: Score) -> dict[str, float | None]:
    """E[log σ] over the items and dimensions of either side. Paper: Table D.1."""
    sides = {"images": subject.embedded.images, "captions": subject.embedded.captions}
    return {
        f"{side} log_sigma": float(width(items).mean()) if isinstance(items, Gaussian) else None
        for side, items in sides.items()
    }


def _cost(subject: Subject, score: Score) -> dict[str, float | None]:
    """Numbers kept of an image, steps and microseconds of one thread for a pair. Paper: Table 1."""
    images, captions = subject.embedded.images, subject.embedded.captions[:TIMED_QUERIES]
    spent = score.cost(images)
    seconds = min(_seconds(score, captions, images) for _ in range(3))
    pairs = len(captions) * len(images)
    return {"numbers": spent.numbers, "work": spent.work, "microseconds": 1e6 * seconds / pairs}


def _seconds(score: Score, queries: Embedding, gallery: Embedding) -> float:
    start = time.perf_counter()
    for _ in score.blocks(queries, gallery):
        pass
    return time.perf_counter() - start


def _bins(subject: Subject, _: Score) -> dict[str, float | None]:
    """R@1 in ten bins of rising σ, both ways, by the model's own score. Paper: Fig. 6."""
    found = analysis.create("bins").compute(_analysed(subject, "bins"))
    assert isinstance(found, SigmaBins), "that is what the analysis gives"
    figures: dict[str, float | None] = {}
    for way in found.ways:
        curve = next(each for each in way.curves if each.metric == "recall@1")
        figures |= {f"{way.way} bin {n}": value for n, value in enumerate(curve.mean, start=1)}
        figures[f"{way.way} bins~recall"] = curve.over_bins.value
    return figures


def _erasing(subject: Subject, _: Score) -> dict[str, float | None]:
    """Mean log σ as more and more pixels or words are erased. Paper: Fig. 7."""
    found = analysis.create("erasing").compute(_analysed(subject, "erasing"))
    assert isinstance(found, Spoilings), "that is what the analysis gives"
    figures: dict[str, float | None] = {}
    for curve in found.curves:
        points = zip(curve.ratio, curve.mean, strict=True)
        figures |= {f"{curve.way} {ratio:g}": value for ratio, value in points}
        figures[f"{curve.way} ~ratio"] = curve.correlation.value
    return figures


def _analysed(subject: Subject, name: str) -> Subject:
    obstacle = analysis.create(name).obstacle(subject)
    if obstacle is not None:
        raise ConfigError(f'analysis "{name}" {obstacle} - leave the row out of the experiment')
    return subject


MEASURES: Mapping[Measure, Callable[[Subject, Score], Mapping[str, float | None]]] = {
    "retrieval": _retrieval,
    "spread": _spread,
    "cost": _cost,
    "bins": _bins,
    "erasing": _erasing,
}
