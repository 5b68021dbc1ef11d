"""Fig. C.2: an image and its plausible matches for ζ = 0, 1, 2."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int16, Int64

from pcme.analysis import Number, Result
from pcme.analysis.contact_sheet import central_square
from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.sources import ImageSource
from pcme.errors import DataError
from pcme.plots import Figure, style
from pcme.reproduce.base import registry
from pcme.reproduce.sheets import Sheet, Source
from pcme.retrieval.plausible import NOBODY, RADII, Groups

EXAMPLES = 2
"""Images per ζ."""
SIDE, GAP, LINE = 1.3, 0.26, 0.15
"""Inches: the side of an image, the room between two, and the height of a line."""
LABEL_LINES, CAPTION_LINES = 6, 4
"""The most lines of either under an image."""
CHARACTERS = 23
"""Of a line."""


@dataclass(frozen=True)
class Shown:
    """An image by its row, with its labels and a caption; its labels differ from the query's in `distance` places."""

    row: int
    id: str
    labels: tuple[str, ...]
    caption: str
    distance: int


@dataclass(frozen=True)
class Matching(Result):
    """A query, plausible matches of it, and how many an image of the split has on average."""

    query: Shown
    matches: tuple[Shown, ...]
    within: tuple[tuple[int, float], ...]
    """(ζ, the mean number of images with labels within it, the image itself among them)."""

    def numbers(self) -> tuple[Number, ...]:
        """The mean number of plausible images by ζ: R grows with it. Paper: §C.1."""
        return tuple(
            Number(f"plausible images for ζ = {radius}, mean", count, "the R of PMRP, in images")
            for radius, count in self.within
        )


@registry.register("fig-c2")
class FigureC2(Sheet[Matching]):
    """Plausible matches of an image, by in how many labels they differ."""

    where = "Fig. C.2"
    setups = ("aviary", "coco")
    differs = (
        "The paper chose its example by hand. On Aviary the labels are a bird's attributes, one of each kind, so that "
        "two birds differ in an even number of them: there is no ζ = 1."
    )
    result = Matching
    title = "Plausible matches"
    reading = (
        "On the left the query; beside it images whose labels differ in exactly 0, 1 or 2 places, each with its labels "
        "and one of its captions. Labels that one of the two lacks come first, in brackets."
    )
    shows_images = True

    def compute(self, source: Source) -> Matching:
        """A random image among those with examples for the most ζ."""
        dataset = source.unseen
        if dataset.labels is None or not dataset.labelled.any():
            raise DataError(
                f"fig-c2: must have labels of objects, got none in {dataset.where}. Put instances_val2014.json into "
                "annotations/."
            )
        groups, generator = Groups.of(dataset.labels.values), numpy_stream(0, "fig-c2")
        group, distance = groups.group, groups.distance
        members = np.bincount(group[group != NOBODY], minlength=len(distance))
        at = np.stack([((distance == radius) * members).sum(1) - (radius == 0) for radius in RADII], axis=1)
        depth = (at >= EXAMPLES).sum(1)
        if not depth.max():
            raise DataError(f"fig-c2: must have images with nearly the same labels, got none in {dataset.where}.")
        query = int(generator.permutation(np.flatnonzero((group != NOBODY) & (depth[group] == depth.max())))[0])
        apart = np.where(group == NOBODY, -1, distance[group[query]][group])
        found = []
        for radius in RADII:
            rows = generator.permutation(np.flatnonzero((apart == radius) & (np.arange(len(apart)) != query)))
            found += [_shown(dataset, row, radius) for row in rows[:EXAMPLES].tolist()]
        return Matching(_shown(dataset, query, 0), tuple(found), _within(distance, members))

    @style.styled
    def draw(self, found: Matching, images: ImageSource | None = None) -> Figure:
        """A column for the query and one for each ζ."""
        radii = [radius for radius in RADII if any(match.distance == radius for match in found.matches)]
        columns = [("query", [found.query])]
        columns += [(f"ζ = {radius}", [m for m in found.matches if m.distance == radius]) for radius in radii]
        longest = max(sum(map(len, _lines(shown, found.query))) for _, column in columns for shown in column)
        cell = SIDE + 0.2 + longest * LINE
        height = 0.36 + cell * max(len(shown) for _, shown in columns)
        figure = style.blank(height, layout=None)
        sheet = figure.add_axes((0, 0, 1, 1))
        for place, (title, column) in enumerate(columns):
            left = 0.1 + place * (SIDE + GAP)
            sheet.text(left, 0.18, title, fontweight="bold", va="center")
            for number, shown in enumerate(column):
                _draw(sheet, shown, found.query, images, (left, 0.32 + number * cell))
        sheet.set(xlim=(0, style.WIDTH), ylim=(height, 0))
        sheet.set_axis_off()
        return figure


def _within(distance: Int16[np.ndarray, "u u"], members: Int64[np.ndarray, " u"]) -> tuple[tuple[int, float], ...]:
    """The mean number of images within each radius, over images."""
    return tuple((radius, float(members @ ((distance <= radius) @ members) / members.sum())) for radius in RADII)


def _shown(dataset: CaptionDataset, row: int, distance: int) -> Shown:
    assert dataset.labels is not None
    marks = np.asarray(dataset.labels.values[row], np.bool_)
    names = tuple(name for name, there in zip(dataset.labels.names, marks, strict=True) if there)
    captions = np.flatnonzero(dataset.caption_image == row)
    text = dataset.captions[int(captions[0])] if len(captions) else ""
    return Shown(row, dataset.images.id(row), names, text, distance)


def _draw(
    sheet: style.Axes, shown: Shown, query: Shown, images: ImageSource | None, corner: tuple[float, float]
) -> None:
    left, top = corner
    if images is not None and (pixels := central_square(images, shown.row)) is not None:
        sheet.imshow(pixels, extent=(left, left + SIDE, top + SIDE, top), aspect="auto")
    sheet.add_patch(style.patch("Rectangle", (left, top), SIDE, SIDE, fill=False, edgecolor=style.FAINT))
    labels, caption = _lines(shown, query)
    sheet.text(left, top + SIDE + 0.05, "\n".join(labels), va="top", fontsize=8, fontweight="bold")
    below = top + SIDE + 0.07 + LINE * len(labels)
    sheet.text(left, below, "\n".join(caption), va="top", fontsize=8)


def _lines(shown: Shown, query: Shown) -> tuple[list[str], list[str]]:
    """The lines under an image: its labels, and its caption."""
    labels = ", ".join(_differing(shown.labels, query.labels))
    return (
        textwrap.wrap(labels, CHARACTERS, max_lines=LABEL_LINES),
        textwrap.wrap(f"“{shown.caption}”", CHARACTERS, max_lines=CAPTION_LINES),
    )


def _differing(labels: Sequence[str], others: Sequence[str]) -> list[str]:
    """All labels of either, first those that one of them lacks: "+" here alone, "−" there alone."""
    return [
        *(f"[+{name}]" for name in labels if name not in others),
        *(f"[−{name}]" for name in others if name not in labels),
        *(name for name in labels if name in others),
    ]
