"""extremes: the most and the least uncertain items, and what they retrieve. Paper: §F.3."""

from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
from jaxtyping import Bool, Float64, Int64

from pcme.analysis import contact_sheet
from pcme.analysis.base import SIGMA, WORDS, Analysis, Number, Result, Subject, registry
from pcme.analysis.contact_sheet import Extreme, RetrievedItem
from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.sources import ImageSource
from pcme.embedding import Gaussian
from pcme.errors import ConfigError
from pcme.plots import style
from pcme.retrieval import metrics
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score
from pcme.uncertainty.sigma import mean_log_sigma

DEEP = 20
"""Ranks per hit that is shown, so that enough of them have different texts."""


@dataclass(frozen=True)
class Ends:
    """The ends of one list by σ, and R@1 in its tails."""

    of: str
    widest: tuple[Extreme, ...]
    narrowest: tuple[Extreme, ...]
    recall_widest: float
    recall_narrowest: float


@dataclass(frozen=True)
class Tails(Result):
    """The ends of the lists of images and of captions."""

    images: Ends
    captions: Ends
    tail: float
    """The share of the split that is a tail."""

    def numbers(self) -> tuple[Number, ...]:
        """R@1 of the tails."""
        return tuple(
            Number(
                f"R@1 of the {name} {100 * self.tail:g} % of {ends.of}",
                getattr(ends, f"recall_{name}"),
                "1: the first hit is always right",
            )
            for ends in (self.images, self.captions)
            for name in ("widest", "narrowest")
        )


@registry.register("extremes")
@dataclass(frozen=True)
class ExtremesAnalysis(Analysis[Tails]):
    """The widest and the narrowest images and captions, with their hits. Paper: §F.3."""

    needs = (SIGMA, WORDS)
    shows_images = True
    reading = (
        "Queries on the left, what they find to their right, best first; a solid frame and “✓” "
        "is right, a dashed one and “✗” is not. Wide items should be those of which a person "
        "would say that they could be many things."
    )

    count: int = 3
    hits: int = 4
    tail: float = 0.05

    def __post_init__(self) -> None:
        self._at_least(1, "count", "hits")
        if not 0 < self.tail <= 1:
            raise ConfigError(f"tail: must be above 0 and at most 1, got {self.tail:g}.")

    def compute(self, subject: Subject, progress: Progress = silent) -> Tails:
        """By the model's own score."""
        images = self._ends(_Side(subject, "images"))
        progress("sides", 1, 2)
        captions = self._ends(_Side(subject, "captions"))
        progress("sides", 2, 2)
        return Tails(images, captions, self.tail)

    @style.styled
    def draw(self, result: Tails, images: ImageSource | None = None) -> style.Figure:
        """Four lists: the widest and narrowest images with captions, and captions with images."""
        return contact_sheet.draw(
            {
                "the widest images, and the captions they find": result.images.widest,
                "the narrowest images": result.images.narrowest,
            },
            {
                "the widest captions, and the images they find": result.captions.widest,
                "the narrowest captions": result.captions.narrowest,
            },
            images,
        )

    def _ends(self, side: "_Side") -> Ends:
        narrowest = np.argsort(side.widths, kind="stable")
        widest = narrowest[::-1].copy()
        return Ends(
            side.of,
            self._extremes(side, widest),
            self._extremes(side, narrowest),
            self._recall(side, widest),
            self._recall(side, narrowest),
        )

    def _recall(self, side: "_Side", order: Int64[np.ndarray, " n"]) -> float:
        some = order[: max(1, round(self.tail * len(order)))]
        ranking = side.score.topk(side.queries[some.tolist()], side.gallery, k=1)
        return float(np.nanmean(metrics.recall(ranking, side.matches[some], 1)))

    def _extremes(self, side: "_Side", order: Int64[np.ndarray, " n"]) -> tuple[Extreme, ...]:
        """The first items of an order, no two with one text or class, with their hits."""
        some = side.different(order, self.count)
        depth = min(DEEP * self.hits, len(side.gallery))
        ranking = side.score.topk(side.queries[some], side.gallery, k=depth)
        relevant = side.matches[np.array(some)].hits(ranking.ids.numpy())
        rows = zip(some, ranking.ids.tolist(), ranking.scores.tolist(), relevant, strict=True)
        return tuple(side.extreme(*row, count=self.hits) for row in rows)


@dataclass(frozen=True)
class _Side:
    """One direction: the queries are images or captions, the gallery the others."""

    subject: Subject
    of: str

    @property
    def score(self) -> Score:
        return self.subject.model.score()

    @property
    def queries(self) -> Gaussian:
        return self.subject.images if self.of == "images" else self.subject.captions

    @property
    def gallery(self) -> Gaussian:
        return self.subject.captions if self.of == "images" else self.subject.images

    @cached_property
    def matches(self) -> Matches:
        return self.subject.matches.T if self.of == "images" else self.subject.matches

    @cached_property
    def widths(self) -> Float64[np.ndarray, " n"]:
        return mean_log_sigma(self.queries)

    def extreme(
        self, row: int, ids: list[int], scores: list[float], relevant: Bool[np.ndarray, " k"], count: int
    ) -> Extreme:
        """A query and its hits; captions that are found, each once."""
        dataset = self.subject.embedded.dataset
        by_image = self.of == "images"
        texts = map(_caption_of if by_image else _first_caption, repeat(dataset), ids)
        hits = [RetrievedItem(*hit) for hit in zip(ids, texts, scores, relevant.tolist(), strict=True)]
        if by_image:  # reversed, so that the first of each text stays
            first = {hit.text: hit for hit in reversed(hits)}
            hits = [hit for hit in hits if first[hit.text] is hit]
        return Extreme(
            row,
            dataset.images.id(row) if by_image else dataset.caption_ids[row],
            _first_caption(dataset, row) if by_image else _caption_of(dataset, row),
            float(self.widths[row]),
            int(self.matches.counts[row]),
            tuple(hits[:count]),
        )

    def different(self, order: Int64[np.ndarray, " n"], count: int) -> list[int]:
        """The first rows with different texts; of images, of different classes."""
        captions, clusters = self.subject.embedded.dataset.captions, self.subject.clusters
        first: dict[object, int] = {}
        for row in order.tolist():
            first.setdefault(clusters[row] if self.of == "images" else captions[row], row)
            if len(first) == count:
                break
        return list(first.values())


def _caption_of(dataset: CaptionDataset, row: int) -> str:
    return dataset.captions[row]


def _first_caption(dataset: CaptionDataset, image: int) -> str:
    """The first caption of an image, or nothing."""
    rows = np.flatnonzero(dataset.caption_image == image)
    return dataset.captions[int(rows[0])] if len(rows) else ""
