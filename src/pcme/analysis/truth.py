"""truth: do σ and Σ p know how many images a caption matches?

Not in the paper, whose datasets do not say. Aviary does, exactly; CUB does by class.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from pcme.analysis.base import PROBABILITY, Analysis, Number, Result, Subject, registry, sample_rows
from pcme.core.progress import Progress, silent
from pcme.embedding import Embedding
from pcme.evaluation.bootstrap import Estimate, estimate, spearman, weighted_mean
from pcme.plots import charts, style
from pcme.scores.base import Score
from pcme.uncertainty.sigma import mean_log_sigma

LABELS = {"width": "mean log σ of the caption", "expected": "Σ p over all images"}
TITLES = {"width": "σ", "expected": "expected matches"}
LEAST = 0.1
"""Smaller expected numbers are drawn here: a logarithmic axis has no 0."""
DECADE = 10
"""Numbers within this factor get a linear axis: a logarithmic one would have no tick."""
FEWEST = 5
"""Smaller groups are not shown."""

Values = Float64[np.ndarray, " m"]
"""One number per caption."""


@dataclass(frozen=True)
class CaptionPoint:
    """A caption: how many images it matches, and the model's value."""

    matches: int
    says: float


@dataclass(frozen=True)
class VersusMatches:
    """A value of the model per caption, against the number of images it matches."""

    says: str
    """ "width" (mean log σ) or "expected" (Σ p over all images)."""
    points: tuple[CaptionPoint, ...]
    """A random sample of the captions, for the figure."""
    matches: tuple[float, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]
    """Groups of rising matches: their mean, and the quartiles of the model's values."""
    correlation: Estimate


@dataclass(frozen=True)
class MatchTruth(Result):
    """The model's σ and Σ p against the number of matches."""

    captions: int
    images: int
    width: VersusMatches | None
    expected: VersusMatches
    factor: Estimate
    """The typical factor between Σ p and the truth: exp(mean |log(Σp / matches)|)."""

    def numbers(self) -> tuple[Number, ...]:
        """Spearman's ρ of both, and the typical factor of Σ p."""
        meaning = "1: the same order; 0: it says nothing of it"
        known = [(name, part) for name, part in (("σ", self.width), ("Σ p", self.expected)) if part is not None]
        return (
            *(
                Number.of(f"ρ of {name} and how many images a caption fits", p.correlation, meaning)
                for name, p in known
            ),
            Number.of("Σ p is off by a factor of", self.factor, "1: exact"),
        )


@registry.register("truth")
@dataclass(frozen=True)
class TruthAnalysis(Analysis[MatchTruth], at_least={"groups": 2, "shown": 1}):
    """σ and Σ p of a caption against the number of images it truly matches.

    The figure shows a sample of `shown` captions; the numbers are of all of them.
    """

    needs = (PROBABILITY,)
    reading = (
        "Each caption is a point, darker where there are many; the line goes through the middle of captions that fit "
        "about as many images, with the middle half around it. On the right, the dashed line is the exact number."
    )

    groups: int = 12
    shown: int = 2000

    def obstacle(self, subject: Subject) -> str | None:
        """A split in which all captions match equally many images has nothing to compare."""
        if (obstacle := super().obstacle(subject)) is not None:
            return obstacle
        counts = subject.dataset.multiplicity()
        if len(counts) and np.ptp(counts) == 0:
            where = subject.dataset.where
            return f"needs captions that match differently many images, in {where} each matches {counts[0]}"
        return None

    def compute(self, subject: Subject, progress: Progress = silent) -> MatchTruth:
        """Over all captions that match any image."""
        split, some = subject.embedded, subject.matches.answerable
        counts, clusters = subject.matches.counts[some], subject.caption_clusters[some]
        expected = expected_matches(subject.model.score(), split.captions, split.images, progress)[some]
        sigma = mean_log_sigma(split.captions)[some] if subject.has_sigma else None
        off = np.abs(np.log(np.maximum(expected, np.finfo(np.float64).tiny) / counts))
        log_off = estimate(weighted_mean(off), clusters)
        return MatchTruth(
            len(counts),
            len(split.images),
            None if sigma is None else self._against("width", sigma, counts, clusters),
            self._against("expected", expected, counts, clusters),
            Estimate(*np.exp([log_off.value, log_off.low, log_off.high]).tolist()),
        )

    @style.styled
    def draw(self, result: MatchTruth, images: object = None) -> style.Figure:
        """σ, where there is one, and Σ p against the number of images a caption matches."""
        known = [part for part in (result.width, result.expected) if part is not None]
        return charts.side_by_side(known, _panel, height=3.3)

    def _against(
        self, says: str, values: Values, counts: Int64[np.ndarray, " m"], clusters: Int64[np.ndarray, " m"]
    ) -> VersusMatches:
        drawn = sorted(sample_rows(len(values), self.shown, "truth"))
        points = tuple(map(CaptionPoint, counts[drawn].tolist(), values[drawn].tolist()))
        matches, low, middle, high = (tuple(part.tolist()) for part in grouped(counts, values, self.groups))
        correlation = estimate(spearman(values, counts.astype(np.float64)), clusters)
        return VersusMatches(says, points, matches, low, middle, high, correlation)


def expected_matches(score: Score, captions: Embedding, images: Embedding, progress: Progress = silent) -> Values:
    """Σ p over all images, per caption: how many matches the model expects."""
    sums = []
    for rows, block in score.blocks(captions, images):
        sums.append(np.exp(np.asarray(block, np.float64)).sum(1))
        progress("captions", rows.stop, len(captions))
    return np.concatenate(sums)


def grouped(counts: Int64[np.ndarray, " m"], values: Values, groups: int) -> Float64[np.ndarray, "4 g"]:
    """Mean count and quartiles of the values per group of at least five captions; equally wide in log count."""
    edges = np.linspace(0, np.log(counts.max()) + 1e-9, groups + 1)
    group = np.digitize(np.log(counts), edges[1:-1])
    parts = [part for each in range(groups) if len(part := np.flatnonzero(group == each)) >= FEWEST]
    quartiles = [np.quantile(values[part], (0.25, 0.5, 0.75)) for part in parts]
    return np.vstack([[counts[part].mean() for part in parts], np.array(quartiles).reshape(-1, 3).T])


def _panel(axes: style.Axes, against: VersusMatches) -> None:
    logs = against.says == "expected"
    x = np.array([point.matches for point in against.points], np.float64)
    y = np.array([max(point.says, LEAST) if logs else point.says for point in against.points])
    wide = x.max() >= DECADE * x.min()
    axes.hexbin(
        x, y, gridsize=28, xscale="log" if wide else "linear", bins="log",
        yscale="log" if logs else "linear", cmap="Blues", mincnt=1, linewidths=0.1, vmin=0.5,
    )  # fmt: skip
    if wide:
        style.log_axis(axes, "x")  # after hexbin, which sets axes of its own
    if logs:
        style.log_axis(axes, "y")
    quartiles = [np.maximum(p, LEAST) if logs else p for p in (against.middle, against.low, against.high)]
    charts.add_lines(axes, [charts.Line("median, middle half", against.matches, *map(list, quartiles))], first=4)
    if logs:
        exact = np.geomspace(x.min(), x.max())
        axes.plot(exact, exact, color=style.INK, linestyle="--", linewidth=1, label="exact")
    rho = against.correlation.value
    axes.set(title=f"{TITLES[against.says]}: ρ {style.signed(rho)}")
    axes.set(xlabel="images the caption fits", ylabel=LABELS[against.says])
    axes.legend(loc="lower left" if rho < 0 else "upper left")
