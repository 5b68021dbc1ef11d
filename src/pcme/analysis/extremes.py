"""extremes: the most and the least uncertain items, and what they find. Paper: §F.3."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64

from pcme.analysis.base import (
    SIGMA,
    WORDS,
    Analysis,
    Need,
    Number,
    Result,
    Subject,
    at_least,
    registry,
)
from pcme.core.progress import Progress, silent
from pcme.embedding import Gaussian
from pcme.errors import ConfigError
from pcme.retrieval import metrics
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score
from pcme.uncertainty.perturbation import width

__all__ = ["Ends", "Extreme", "Extremes", "Hit", "Tails"]


DEEP = 20
"""So many times the hits are ranked, so that enough of them have different texts."""


@dataclass(frozen=True)
class Hit:
    """What was found: its place in the split, its text (of an image: a caption), and if right."""

    place: int
    text: str
    score: float
    right: bool


@dataclass(frozen=True)
class Extreme:
    """A query: an image or a caption, by its place in the split, and what it finds."""

    place: int
    id: str
    text: str
    """The caption; of an image, one of its own captions."""
    width: float
    matches: int
    hits: tuple[Hit, ...]


@dataclass(frozen=True)
class Ends:
    """The ends of one list, and R@1 in the tails they are the ends of."""

    of: str
    widest: tuple[Extreme, ...]
    narrowest: tuple[Extreme, ...]
    recall_widest: float
    recall_narrowest: float


@dataclass(frozen=True)
class Tails(Result):
    """The ends of both lists, that of images and that of captions."""

    images: Ends
    captions: Ends
    tail: float
    """How much of the split a tail is."""

    def numbers(self) -> tuple[Number, ...]:
        """R@1 of the tails."""
        return tuple(
            Number(
                f"R@1 of the {name} {100 * self.tail:g} % of {ends.of}",
                value,
                "1: the first hit is always right",
            )
            for ends in (self.images, self.captions)
            for name, value in (
                ("widest", ends.recall_widest),
                ("narrowest", ends.recall_narrowest),
            )
        )


@registry.register("extremes")
@dataclass(frozen=True)
class Extremes(Analysis):
    """The widest and the narrowest images and captions, with what they retrieve. Paper: §F.3."""

    needs: ClassVar[tuple[Need, ...]] = (SIGMA, WORDS)
    reading: ClassVar[str] = (
        "Queries on the left, what they find to their right, best first; a solid frame and “✓” "
        "is right, a dashed one and “✗” is not. Wide items should be those of which a person "
        "would say that they could be many things."
    )
    result: ClassVar[type[Result]] = Tails

    count: int = 3
    hits: int = 4
    tail: float = 0.05

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)
        at_least("hits", self.hits, 1)
        if not 0 < self.tail <= 1:
            raise ConfigError(f"tail must be above 0 and at most 1 - got {self.tail:g}")

    def compute(self, subject: Subject, progress: Progress = silent) -> Tails:
        """By the model's own score."""
        images = self._ends(_Side.of(subject, "images"))
        progress("sides", 1, 2)
        captions = self._ends(_Side.of(subject, "captions"))
        progress("sides", 2, 2)
        return Tails(images, captions, self.tail)

    def _ends(self, side: "_Side") -> Ends:
        narrowest = np.argsort(side.widths, kind="stable")
        widest = narrowest[::-1].copy()
        return Ends(
            side.name,
            self._listed(side, widest),
            self._listed(side, narrowest),
            self._recall(side, widest),
            self._recall(side, narrowest),
        )

    def _recall(self, side: "_Side", order: Int64[np.ndarray, " n"]) -> float:
        some = order[: max(1, round(self.tail * len(order)))]
        ranking = side.score.topk(side.queries[some.tolist()], side.gallery, k=1)
        return float(np.nanmean(metrics.recall(ranking, side.matches[some], 1)))

    def _listed(self, side: "_Side", order: Int64[np.ndarray, " n"]) -> tuple[Extreme, ...]:
        """The first items of an order, no two of one text or class, with their hits."""
        some = side.different(order, self.count)
        depth = min(DEEP * self.hits, len(side.gallery))
        ranking = side.score.topk(side.queries[some], side.gallery, k=depth)
        rights = side.matches[np.array(some)].hits(ranking.ids.numpy())
        rows = zip(some, ranking.ids.tolist(), ranking.scores.tolist(), rights, strict=True)
        return tuple(self._found(side, *row) for row in rows)

    def _found(
        self,
        side: "_Side",
        place: int,
        ids: list[int],
        scores: list[float],
        rights: Bool[np.ndarray, " k"],
    ) -> Extreme:
        texts = map(side.text_of_hit, ids)
        hits = [Hit(*row) for row in zip(ids, texts, scores, rights.tolist(), strict=True)]
        if side.name == "images":
            hits = _first_of_each_text(hits)
        return Extreme(
            place,
            side.ids(place),
            side.text(place),
            float(side.widths[place]),
            int(side.matches.counts[place]),
            tuple(hits[: self.hits]),
        )


@dataclass(frozen=True)
class _Side:
    """One direction: who asks whom, and what is true."""

    subject: Subject
    name: str
    queries: Gaussian
    gallery: Gaussian
    matches: Matches
    widths: Float64[np.ndarray, " n"]

    @classmethod
    def of(cls, subject: Subject, name: str) -> "_Side":
        images, captions, matches = subject.images, subject.captions, subject.matches
        if name == "images":
            return cls(subject, name, images, captions, matches.T, width(images))
        return cls(subject, name, captions, images, matches, width(captions))

    @property
    def score(self) -> Score:
        return self.subject.model.score()

    def ids(self, place: int) -> str:
        dataset = self.subject.embedded.dataset
        return dataset.images.id(place) if self.name == "images" else dataset.caption_ids[place]

    def text(self, place: int) -> str:
        return (_image_text if self.name == "images" else _caption_text)(self.subject, place)

    def text_of_hit(self, place: int) -> str:
        return (_caption_text if self.name == "images" else _image_text)(self.subject, place)

    def different(self, order: Int64[np.ndarray, " n"], count: int) -> list[int]:
        """The first places with different texts; of images, of different classes."""
        seen: set[object] = set()
        kept: list[int] = []
        for place in order.tolist():
            kind = self.subject.clusters[place] if self.name == "images" else self.text(place)
            if kind not in seen:
                seen.add(kind)
                kept.append(place)
            if len(kept) == count:
                break
        return kept


def _first_of_each_text(hits: Sequence[Hit]) -> list[Hit]:
    """The same sentence over and over tells nothing more."""
    kept: dict[str, Hit] = {}
    for hit in hits:
        kept.setdefault(hit.text, hit)
    return list(kept.values())


def _caption_text(subject: Subject, place: int) -> str:
    return subject.embedded.dataset.captions[place]


def _image_text(subject: Subject, place: int) -> str:
    """The first caption of an image, or nothing."""
    dataset = subject.embedded.dataset
    own = np.flatnonzero(dataset.caption_image == place)
    return dataset.captions[int(own[0])] if len(own) else ""
