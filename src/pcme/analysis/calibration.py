"""calibration: is p the share of pairs that match, and is it low where nothing does?"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from pcme.analysis.base import PROBABILITY, Analysis, Number, Result, Subject, registry
from pcme.core.progress import Progress, silent
from pcme.embedding import Embedding
from pcme.plots import charts, style
from pcme.scores.base import Score
from pcme.uncertainty.statistics import Calibration, auroc

LIKELY = 0.1
"""Pairs of at least this p have a calibration error of their own."""
WRITTEN = "captions that fit no image"
WITHHELD = "captions whose matches were taken away"


@dataclass(frozen=True)
class Roc:
    """Captions with a match against captions without one (of the kind `nothing`), separated by their best p."""

    nothing: str
    matched: int
    unmatched: int
    false_alarms: tuple[float, ...]
    found: tuple[float, ...]
    """Shares of the unmatched, and of the matched, that a falling threshold lets through."""
    auroc: float


@dataclass(frozen=True)
class Reliability(Result):
    """The share of matching pairs per bin of p; empty bins are left out."""

    pairs: int
    confidence: tuple[float, ...]
    true: tuple[float, ...]
    count: tuple[int, ...]
    error: float
    """The expected calibration error over all pairs."""
    error_likely: float
    """The same over pairs with p of at least LIKELY: most pairs have nothing in common, and are easy."""
    nothing: Roc

    def numbers(self) -> tuple[Number, ...]:
        """The calibration errors, and the area under the curve."""
        same = "0: p is the share"
        apart = f"“nothing here matches”, AUROC, {self.nothing.nothing}"
        return (
            Number("expected calibration error, all pairs", self.error, same),
            Number(f"the same, pairs with p of {LIKELY} or more", self.error_likely, same),
            Number(apart, self.nothing.auroc, "1: always told apart; 0.5: chance"),
        )


@registry.register("calibration")
@dataclass(frozen=True)
class CalibrationAnalysis(Analysis[Reliability], at_least={"bins": 2, "unmatched": 1}):
    """Reliability of the match probability over all pairs, and "nothing here matches".

    A drawn dataset writes `unmatched` captions that match no image; elsewhere each caption is asked once with its
    matches in the gallery and once without.
    """

    needs = (PROBABILITY,)
    reading = (
        "Left: pairs by p, and how many of them match; on the diagonal, p means what it says. Right: captions with a "
        "match against captions without one, told apart by their best p; the nearer to the upper left corner, the "
        "better."
    )

    bins: int = 15
    unmatched: int = 1000

    def compute(self, subject: Subject, progress: Progress = silent) -> Reliability:
        """Over all pairs, in blocks."""
        score, split = subject.model.score(), subject.embedded
        counted = Calibration(self.bins)
        with_matches, without = [], []
        for rows, block in score.blocks(split.captions, split.images):
            p, truth = _probability(block), subject.matches[rows].dense()
            counted.add(p, truth)
            with_matches.append(p.max(1))
            without.append(np.where(truth, 0.0, p).max(1))
            progress("captions", rows.stop, len(split.captions))
        answerable = subject.matches.answerable
        kind, nothing = WITHHELD, np.concatenate(without)[answerable]
        if (written := split.dataset.unmatched(self.unmatched)) is not None:
            kind, nothing = WRITTEN, best_of_each(score, subject.model.encode_captions(written.captions), split.images)
        apart = roc(kind, np.concatenate(with_matches)[answerable], nothing)
        confidence, true, count = zip(*counted.reliability, strict=True)
        gap = np.abs(np.subtract(confidence, true)) * count
        likely = np.array(confidence) >= LIKELY
        error_likely = float(gap[likely].sum() / np.array(count)[likely].sum()) if likely.any() else float("nan")
        return Reliability(sum(count), confidence, true, count, counted.error, error_likely, apart)

    @style.styled
    def draw(self, result: Reliability, images: object = None) -> style.Figure:
        """p against the share that matches, with how many pairs there are; and the ROC curve."""
        figure, (left, right) = style.divided(3.6, widths=(1, 1))
        upper, lower = style.panels_of(left, 2, sharex=True, height_ratios=(3, 1))
        _reliability(upper, lower, result)
        _roc(style.panels_of(right)[0], result.nothing)
        return figure


def best_of_each(score: Score, captions: Embedding, images: Embedding) -> Float64[np.ndarray, " m"]:
    """The largest p of each caption over all images."""
    return np.concatenate([_probability(b).max(1) for _, b in score.blocks(captions, images)])


def roc(
    nothing: str, matched: Float64[np.ndarray, " n"], unmatched: Float64[np.ndarray, " m"], *, points: int = 200
) -> Roc:
    """The curve by thresholds from the highest to the lowest, thinned to about `points`."""
    thresholds = np.unique(np.concatenate([matched, unmatched]))[::-1]
    rows = np.linspace(0, len(thresholds) - 1, min(points, len(thresholds))).round()
    some = thresholds[rows.astype(np.int64)]
    shares = [1 - np.searchsorted(np.sort(values), some) / len(values) for values in (unmatched, matched)]
    alarms, hits = ((0.0, *share.tolist()) for share in shares)
    return Roc(nothing, len(matched), len(unmatched), alarms, hits, auroc(matched, unmatched))


def _probability(block: object) -> Float64[np.ndarray, "b g"]:
    return np.exp(np.asarray(block, np.float64)).clip(0, 1)


def _reliability(upper: style.Axes, lower: style.Axes, result: Reliability) -> None:
    _unit_square(upper, "p is the share")
    charts.add_lines(upper, [charts.Line("pairs", result.confidence, result.true)])
    upper.set(title=f"calibration error {result.error:.3f}", ylabel="share that matches")
    upper.legend(loc="upper left")
    style.log_axis(lower, "y")
    lower.bar(result.confidence, result.count, width=0.045, color=style.FAINT)
    lower.set(xlabel="match probability p", ylabel="pairs")


def _roc(axes: style.Axes, nothing: Roc) -> None:
    _unit_square(axes, "chance")
    axes.plot(nothing.false_alarms, nothing.found, color=style.PALETTE[2], label="by the best p")
    axes.fill_between(nothing.false_alarms, nothing.found, color=style.PALETTE[2], alpha=0.12, linewidth=0)
    axes.set(
        title=f"no match told apart: {nothing.auroc:.3f}",
        xlabel=f"share let through of {nothing.unmatched:,}\n{nothing.nothing}",
        ylabel=f"share let through of {nothing.matched:,} that match",
    )
    axes.legend(loc="lower right")


def _unit_square(axes: style.Axes, diagonal: str) -> None:
    axes.plot([0, 1], [0, 1], color=style.INK, linestyle="--", linewidth=1, label=diagonal)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
