"""truth: does σ, and does Σ p, know how many images a caption fits?

What the paper could not ask: its datasets do not say. Aviary does, exactly; CUB does by class.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Int64

from pcme.analysis.base import (
    PROBABILITY,
    Analysis,
    Need,
    Number,
    Result,
    Subject,
    at_least,
    registry,
)
from pcme.analysis.bootstrap import Estimate, estimated, mean, spearman
from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.scores.base import Score
from pcme.uncertainty.perturbation import width

__all__ = ["Against", "MatchTruth", "Point", "Truth", "expected_matches", "grouped"]

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
class Truth(Analysis):
    """σ and Σ p of a caption against the number of images it truly fits.

    `shown` captions are kept to be drawn; the figures are of all of them.
    """

    needs: ClassVar[tuple[Need, ...]] = (PROBABILITY,)
    reading: ClassVar[str] = (
        "Each caption is a point, darker where there are many; the line goes through the middle "
        "of captions that fit about as many images, with the middle half around it. On the right, "
        "the dashed line is the exact number."
    )
    result: ClassVar[type[Result]] = MatchTruth

    groups: int = 12
    shown: int = 2000

    def __post_init__(self) -> None:
        at_least("groups", self.groups, 2)
        at_least("shown", self.shown, 1)

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
        sigma = width(subject.captions) if subject.has_sigma else None
        off = np.abs(np.log(np.maximum(expected[some], np.finfo(np.float64).tiny) / counts[some]))
        log_off = estimated(mean(off), clusters[some])
        factors = (float(np.exp(x)) for x in (log_off.value, log_off.low, log_off.high))
        return MatchTruth(
            int(np.count_nonzero(some)),
            len(found.images),
            None if sigma is None else self._against("width", sigma, counts, clusters),
            self._against("expected", expected, counts, clusters),
            Estimate(*factors),
        )

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
            estimated(spearman(values, counts.astype(np.float64)), clusters),
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
