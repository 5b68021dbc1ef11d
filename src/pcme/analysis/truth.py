"""truth: does σ, and does Σ p, know how many images a caption fits?

What the paper could not ask: its datasets do not say. Aviary does, exactly; CUB does by class.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from pcme.analysis.base import PROBABILITY, Analysis, Number, Result, Subject, registry
from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.evaluation.bootstrap import Estimate, estimate, spearman, weighted_mean
from pcme.plots import charts, style
from pcme.scores.base import Score
from pcme.uncertainty.sigma import mean_log_sigma

LABELS = {"width": "mean log σ of the caption", "expected": "Σ p over all images"}
TITLES = {"width": "σ", "expected": "expected matches"}
LEAST = 0.1
"""Expected numbers below this are drawn here: on a logarithmic axis there is no room for 0."""

DECADE = 10
"""Numbers that differ less are not worth a logarithmic axis, which would have no tick."""

FEWEST = 5
"""Captions that make a group; fewer are not shown."""

Values = Float64[np.ndarray, " m"]
"""A number for each caption."""
Groups = Float64[np.ndarray, " g"]
"""A number for each group of captions."""


@dataclass(frozen=True)
class Point:
    """A caption: how many images it fits, and what the model says."""

    matches: int
    says: float


@dataclass(frozen=True)
class Against:
    """Something the model says of captions, against the number of images they fit."""

    says: str
    """ "width" (mean log σ) or "expected" (Σ p over all images)."""
    points: tuple[Point, ...]
    """Some of the captions, at random, to be drawn."""
    matches: tuple[float, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]
    """Captions in groups of rising matches: their mean, and the quartiles of what is said."""
    correlation: Estimate


@dataclass(frozen=True)
class MatchTruth(Result):
    """What the model says of how much a caption fits, against the truth."""

    captions: int
    images: int
    width: Against | None
    expected: Against
    factor: Estimate
    """By how much Σ p is off, as a factor: exp(mean |log(Σp / matches)|)."""

    def numbers(self) -> tuple[Number, ...]:
        """Spearman's ρ of both, and how far Σ p is off."""
        rho = "ρ of {} and how many images a caption fits"
        known = [("σ", self.width), ("Σ p", self.expected)]
        return (
            *(
                Number(
                    rho.format(name),
                    said.correlation.value,
                    "1: the same order; 0: it says nothing of it",
                    said.correlation.low,
                    said.correlation.high,
                )
                for name, said in known
                if said is not None
            ),
            Number(
                "Σ p is off by a factor of",
                self.factor.value,
                "1: exact",
                self.factor.low,
                self.factor.high,
            ),
        )


@registry.register("truth")
@dataclass(frozen=True)
class Truth(Analysis[MatchTruth]):
    """σ and Σ p of a caption against the number of images it truly fits.

    `shown` captions are kept to be drawn; the figures are of all of them.
    """

    needs = (PROBABILITY,)
    reading = (
        "Each caption is a point, darker where there are many; the line goes through the middle "
        "of captions that fit about as many images, with the middle half around it. On the right, "
        "the dashed line is the exact number."
    )

    groups: int = 12
    shown: int = 2000

    def __post_init__(self) -> None:
        self._at_least(2, "groups")
        self._at_least(1, "shown")

    def obstacle(self, subject: Subject) -> str | None:
        """Where every caption fits as many images as all others there is nothing to compare."""
        if (found := super().obstacle(subject)) is not None:
            return found
        counts = subject.dataset.multiplicity()
        if len(counts) and np.ptp(counts) == 0:
            return (
                f"needs captions that fit differently many images - in {subject.dataset.where} "
                f"each fits {counts[0]}"
            )
        return None

    def compute(self, subject: Subject, progress: Progress = silent) -> MatchTruth:
        """Of all captions that fit any image."""
        found, score = subject.embedded, subject.model.score()
        expected = expected_matches(score, found.captions, found.images, progress)
        counts, clusters = subject.matches.counts, subject.caption_clusters
        some = counts > 0
        sigma = mean_log_sigma(subject.captions) if subject.has_sigma else None
        off = np.abs(np.log(np.maximum(expected[some], np.finfo(np.float64).tiny) / counts[some]))
        log_off = estimate(weighted_mean(off), clusters[some])
        factors = (float(np.exp(x)) for x in (log_off.value, log_off.low, log_off.high))
        return MatchTruth(
            int(np.count_nonzero(some)),
            len(found.images),
            None if sigma is None else self._against("width", sigma, counts, clusters),
            self._against("expected", expected, counts, clusters),
            Estimate(*factors),
        )

    @style.styled
    def draw(self, result: MatchTruth, images: object = None) -> style.Figure:
        """σ, where there is one, and Σ p against the number of images a caption fits."""
        known = [said for said in (result.width, result.expected) if said is not None]
        figure, panels = style.grid(1, len(known), height=3.3)
        for axes, said in zip(panels, known, strict=True):
            _panel(axes, said)
        return figure

    def _against(
        self,
        says: str,
        values: Values,
        counts: Int64[np.ndarray, " m"],
        clusters: Int64[np.ndarray, " m"],
    ) -> Against:
        some = counts > 0
        values, counts, clusters = values[some], counts[some], clusters[some]
        drawn = np.sort(numpy_stream(0, "truth").permutation(len(values))[: self.shown])
        pairs = zip(counts[drawn].tolist(), values[drawn].tolist(), strict=True)
        matches, low, middle, high = grouped(counts, values, self.groups)
        return Against(
            says,
            tuple(Point(*pair) for pair in pairs),
            tuple(matches.tolist()),
            tuple(low.tolist()),
            tuple(middle.tolist()),
            tuple(high.tolist()),
            estimate(spearman(values, counts.astype(np.float64)), clusters),
        )


def expected_matches(
    score: Score, captions: Embedding, images: Embedding, progress: Progress = silent
) -> Values:
    """Σ p over all images, of each caption: how many the model expects to match."""
    sums = []
    for rows, block in score.blocks(captions, images):
        sums.append(np.exp(np.asarray(block, np.float64)).sum(1))
        progress("captions", rows.stop, len(captions))
    return np.concatenate(sums)


def grouped(
    counts: Int64[np.ndarray, " m"], values: Values, groups: int
) -> tuple[Groups, Groups, Groups, Groups]:
    """(mean count, quartiles of the values) of captions whose counts are about alike.

    Groups are equally wide in log count, and hold at least five captions.
    """
    edges = np.linspace(0, np.log(counts.max()) + 1e-9, groups + 1)
    place = np.digitize(np.log(counts), edges[1:-1])
    parts = [np.flatnonzero(place == group) for group in range(groups)]
    kept = [part for part in parts if len(part) >= FEWEST]
    quartiles = [np.quantile(values[part], (0.25, 0.5, 0.75)) for part in kept]
    low, middle, high = np.array(quartiles).reshape(-1, 3).T
    return np.array([counts[part].mean() for part in kept]), low, middle, high


def _panel(axes: style.Axes, said: Against) -> None:
    logs = said.says == "expected"
    x = np.array([point.matches for point in said.points], np.float64)
    y = np.array([max(point.says, LEAST) if logs else point.says for point in said.points])
    wide = x.max() >= DECADE * x.min()
    axes.hexbin(
        x, y, gridsize=28, xscale="log" if wide else "linear", bins="log",
        yscale="log" if logs else "linear", cmap="Blues", mincnt=1, linewidths=0.1, vmin=0.5,
    )  # fmt: skip
    if wide:
        style.log_axis(axes, "x")  # after hexbin, which sets axes of its own
    if logs:
        style.log_axis(axes, "y")
    quartiles = [np.maximum(p, LEAST) if logs else p for p in (said.middle, said.low, said.high)]
    charts.add_lines(
        axes, [charts.Line("median, middle half", said.matches, *map(list, quartiles))], first=4
    )
    if logs:
        exact = np.geomspace(x.min(), x.max())
        axes.plot(exact, exact, color=style.INK, linestyle="--", linewidth=1, label="exact")
    rho = said.correlation
    axes.set(
        title=f"{TITLES[said.says]}: ρ {style.signed(rho.value)}",
        xlabel="images the caption fits",
        ylabel=LABELS[said.says],
    )
    axes.legend(loc="lower left" if rho.value < 0 else "upper left")
