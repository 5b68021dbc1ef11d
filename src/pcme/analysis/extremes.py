"""extremes: the most and the least uncertain items, and what they retrieve. Paper: §F.3."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from pcme.analysis import contact_sheet
from pcme.analysis.base import SIGMA, WORDS, Analysis, Number, Result, Side, Subject, registry, sides
from pcme.analysis.contact_sheet import Extreme, RetrievedItem
from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.sources import ImageSource
from pcme.errors import ConfigError
from pcme.plots import style
from pcme.retrieval import metrics
from pcme.scores.base import Score

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
class ExtremesAnalysis(Analysis[Tails], at_least={"count": 1, "hits": 1}):
    """The widest and the narrowest images and captions, with their hits. Paper: §F.3."""

    needs = (SIGMA, WORDS)
    shows_images = True
    reading = (
        "Queries on the left, what they find to their right, best first; a solid frame and “✓” is right, a dashed "
        "one and “✗” is not. Wide items should be those of which a person would say that they could be many things."
    )

    count: int = 3
    hits: int = 4
    tail: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.tail <= 1:
            raise ConfigError(f"tail: must be above 0 and at most 1, got {self.tail:g}.")

    def compute(self, subject: Subject, progress: Progress = silent) -> Tails:
        """By the model's own score."""
        ends = []
        for done, side in enumerate(sides(subject), start=1):
            ends.append(self._ends(subject, side))
            progress("sides", done, 2)
        images, captions = ends
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

    def _ends(self, subject: Subject, side: Side) -> Ends:
        score, dataset = subject.model.score(), subject.embedded.dataset
        narrowest = np.argsort(side.log_sigma, kind="stable")
        widest = narrowest[::-1].copy()
        return Ends(
            side.of,
            self._extremes(score, side, widest, dataset),
            self._extremes(score, side, narrowest, dataset),
            self._recall(score, side, widest),
            self._recall(score, side, narrowest),
        )

    def _recall(self, score: Score, side: Side, order: Int64[np.ndarray, " n"]) -> float:
        tail = order[: max(1, round(self.tail * len(order)))]
        ranking = score.topk(side.queries[tail.tolist()], side.gallery, k=1)
        return float(np.nanmean(metrics.recall(ranking, side.matches[tail], 1)))

    def _extremes(
        self, score: Score, side: Side, order: Int64[np.ndarray, " n"], dataset: CaptionDataset
    ) -> tuple[Extreme, ...]:
        """The first items of an order, no two with one text or class, with their hits; captions found are different."""
        by_image = side.of == "images"
        first: dict[object, int] = {}
        for row in order.tolist():
            first.setdefault(side.clusters[row] if by_image else dataset.captions[row], row)
            if len(first) == self.count:
                break
        some = list(first.values())
        ranking = score.topk(side.queries[some], side.gallery, k=min(DEEP * self.hits, len(side.gallery)))
        relevant = side.matches[np.array(some)].hits(ranking.ids.numpy())
        extremes = []
        for row, *found in zip(some, ranking.ids.tolist(), ranking.scores.tolist(), relevant.tolist(), strict=True):
            hits = [
                RetrievedItem(place, _text(dataset, place, image=not by_image), value, right)
                for place, value, right in zip(*found, strict=True)
            ]
            if by_image:  # reversed, so that the first of each text stays
                by_text = {hit.text: hit for hit in reversed(hits)}
                hits = [hit for hit in hits if by_text[hit.text] is hit]
            extremes.append(
                Extreme(
                    row,
                    dataset.images.id(row) if by_image else dataset.caption_ids[row],
                    _text(dataset, row, image=by_image),
                    float(side.log_sigma[row]),
                    int(side.matches.counts[row]),
                    tuple(hits[: self.hits]),
                    None if by_image else int(dataset.caption_image[row]),
                )
            )
        return tuple(extremes)


def _text(dataset: CaptionDataset, row: int, *, image: bool) -> str:
    """A caption; of an image its first caption, or nothing."""
    rows = np.flatnonzero(dataset.caption_image == row) if image else [row]
    return dataset.captions[int(rows[0])] if len(rows) else ""
