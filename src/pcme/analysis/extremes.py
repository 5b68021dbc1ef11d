"""extremes: the most and the least uncertain items, and what they find. Paper: §F.3."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from pcme.analysis.base import SIGMA, WORDS, Analysis, Number, Result, Subject, registry
from pcme.core.progress import Progress, silent
from pcme.data.images.decoding import ImageError
from pcme.data.sources import ImageSource
from pcme.embedding import Gaussian
from pcme.errors import ConfigError
from pcme.plots import style
from pcme.retrieval import metrics
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score
from pcme.uncertainty.sigma import mean_log_sigma

RIGHT, WRONG = style.PALETTE[2], style.PALETTE[4]
THUMBNAIL = 160
"""Pixels a side."""
ROW, HEADING = 0.98, 0.34
"""Inches."""

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
class Extremes(Analysis[Tails]):
    """The widest and the narrowest images and captions, with what they retrieve. Paper: §F.3."""

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
        self._at_least(1, "count")
        self._at_least(1, "hits")
        if not 0 < self.tail <= 1:
            raise ConfigError(f"tail: must be above 0 and at most 1, got {self.tail:g}.")

    def compute(self, subject: Subject, progress: Progress = silent) -> Tails:
        """By the model's own score."""
        images = self._ends(_Side.of(subject, "images"))
        progress("sides", 1, 2)
        captions = self._ends(_Side.of(subject, "captions"))
        progress("sides", 2, 2)
        return Tails(images, captions, self.tail)

    @style.styled
    def draw(self, result: Tails, images: ImageSource | None = None) -> style.Figure:
        """Four lists: the widest and narrowest images with captions, and captions with images."""
        lists = (
            ("the widest images, and the captions they find", "images", result.images.widest),
            ("the narrowest images", "images", result.images.narrowest),
            ("the widest captions, and the images they find", "captions", result.captions.widest),
            ("the narrowest captions", "captions", result.captions.narrowest),
        )
        rows = sum(len(items) for _, _, items in lists)
        height = rows * ROW + len(lists) * HEADING + 0.1
        figure = style.blank(style.WIDTH, height, layout=None)
        sheet = figure.add_axes((0, 0, 1, 1))
        sheet.set(xlim=(0, style.WIDTH), ylim=(height, 0))
        sheet.set_axis_off()
        top = 0.05
        for title, of, items in lists:
            sheet.text(0.1, top + 0.2, title, fontweight="bold", fontsize=9.5, va="center")
            top += HEADING
            for item in items:
                (_image_row if of == "images" else _caption_row)(sheet, item, top, images)
                top += ROW
        return figure

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
            return cls(subject, name, images, captions, matches.T, mean_log_sigma(images))
        return cls(subject, name, captions, images, matches, mean_log_sigma(captions))

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


def _image_row(sheet: style.Axes, item: Extreme, top: float, images: ImageSource | None) -> None:
    _picture(sheet, images, item.place, (0.1, top), None)
    _facts(sheet, item, (1.05, top))
    for place, hit in enumerate(item.hits):
        _caption_hit(sheet, hit, top + 0.2 + 0.17 * place)


def _caption_row(sheet: style.Axes, item: Extreme, top: float, images: ImageSource | None) -> None:
    _facts(sheet, item, (0.1, top))
    sheet.text(0.1, top + 0.22, _wrapped(f"“{item.text}”", 33, 4), fontsize=8, va="top")
    for place, hit in enumerate(item.hits):
        _picture(sheet, images, hit.place, (2.5 + 0.96 * place, top), hit)


def _facts(sheet: style.Axes, item: Extreme, corner: tuple[float, float]) -> None:
    text = f"log σ {style.signed(item.width)}, {item.matches:,} match"
    sheet.text(corner[0], corner[1] + 0.02, text, fontsize=8, color=style.FAINT, va="top")


def _caption_hit(sheet: style.Axes, hit: Hit, top: float) -> None:
    colour = RIGHT if hit.right else WRONG
    mark = "✓" if hit.right else "✗"
    sheet.text(1.05, top, mark, fontsize=8.5, color=colour, va="top", fontweight="bold")
    sheet.text(1.22, top, _wrapped(hit.text, 78, 1), fontsize=8, color=style.INK, va="top")


def _picture(
    sheet: style.Axes,
    images: ImageSource | None,
    place: int,
    corner: tuple[float, float],
    hit: Hit | None,
) -> None:
    left, top = corner
    size = 0.86
    extent = (left, left + size, top + size, top)
    pixels = _pixels(images, place)
    if pixels is not None:
        sheet.imshow(pixels, extent=extent, aspect="auto", interpolation="antialiased")
    colour = style.FAINT if hit is None else RIGHT if hit.right else WRONG
    dash = "--" if hit is not None and not hit.right else "-"
    frame = style.rectangle((left, top), size, size, fill=False, edgecolor=colour, linestyle=dash)
    frame.set_linewidth(1.0 if hit is None else 1.8)
    sheet.add_patch(frame)
    if hit is not None:
        looks = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        sheet.text(
            left + 0.05, top + 0.05, "✓" if hit.right else "✗", fontsize=8.5, color=colour,
            va="top", fontweight="bold", bbox=looks,
        )  # fmt: skip
    sheet.set(xlim=(0, style.WIDTH), ylim=(sheet.get_ylim()[0], 0))


def _pixels(images: ImageSource | None, place: int) -> np.ndarray | None:
    """A square of the picture; nothing where there are no pictures to show."""
    if images is None:
        return None
    try:
        picture = images.load(place)
    except ImageError:
        return None
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    square = picture.crop((left, top, left + side, top + side))
    return np.asarray(square.resize((THUMBNAIL, THUMBNAIL)))


def _wrapped(text: str, width: int, lines: int) -> str:
    return "\n".join(textwrap.wrap(text, width, max_lines=lines, placeholder=" …"))
