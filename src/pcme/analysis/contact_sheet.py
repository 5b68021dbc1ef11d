"""The contact sheet of `extremes`: queries and their hits, images and captions in rows."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt8

from pcme.data.images.decoding import ImageError
from pcme.data.sources import ImageSource
from pcme.plots import style

RIGHT, WRONG = style.PALETTE[2], style.PALETTE[4]
THUMBNAIL = 160
"""Pixels per side."""
ROW, HEADING, SIDE = 0.98, 0.34, 0.86
"""Inches: the heights of a row and of a heading, and the side of an image."""
OWN, HITS, SMALL = 2.32, 3.16, 0.72
"""Inches: where a caption's own image begins, where those that it finds do, and the side of each."""
FACTS = 88
"""Characters of a line of facts."""


@dataclass(frozen=True)
class RetrievedItem:
    """A hit: its row in the split, its text (of an image: a caption), whether it is relevant."""

    place: int
    text: str
    score: float
    right: bool


@dataclass(frozen=True)
class Extreme:
    """A query: an image or a caption, by its row in the split, and its hits."""

    place: int
    id: str
    text: str
    """The caption; of an image, one of its captions."""
    width: float
    matches: int
    hits: tuple[RetrievedItem, ...]
    own: int | None = None
    """The image that a caption was written for."""


def draw(
    image_lists: Mapping[str, tuple[Extreme, ...]],
    caption_lists: Mapping[str, tuple[Extreme, ...]],
    images: ImageSource | None,
) -> style.Figure:
    """Draw {title: queries}: images with the captions they find, captions with the images."""
    count = sum(map(len, (*image_lists.values(), *caption_lists.values())))
    height = count * ROW + (len(image_lists) + len(caption_lists)) * HEADING + 0.1
    figure = style.blank(height, layout=None)
    sheet = figure.add_axes((0, 0, 1, 1))
    sheet.set(xlim=(0, style.WIDTH), ylim=(height, 0))
    sheet.set_axis_off()
    top = 0.05
    for lists, draw_row in ((image_lists, _draw_image), (caption_lists, _draw_caption)):
        for title, items in lists.items():
            sheet.text(0.1, top + 0.2, title, fontweight="bold", fontsize=9.5, va="center")
            top += HEADING
            for item in items:
                draw_row(sheet, item, top, images)
                top += ROW
    return figure


def _draw_image(sheet: style.Axes, item: Extreme, top: float, images: ImageSource | None) -> None:
    """A row of the sheet: an image, one of its own captions, and those it finds."""
    _draw_pixels(sheet, images, item.place, (0.1, top))
    own = f"; its own: “{item.text}”" if item.text else ""
    _draw_facts(sheet, item, (1.05, top), own)
    for number, hit in enumerate(item.hits):
        line = top + 0.2 + 0.17 * number
        _draw_mark(sheet, hit, (1.05, line))
        sheet.text(1.22, line, _wrapped(hit.text, 78, 1), fontsize=8, color=style.INK, va="top")


def _draw_caption(sheet: style.Axes, item: Extreme, top: float, images: ImageSource | None) -> None:
    """A row of the sheet: a caption, its own image, and those it finds."""
    _draw_facts(sheet, item, (0.1, top))
    sheet.text(0.1, top + 0.22, _wrapped(f"“{item.text}”", 33, 4), fontsize=8, va="top")
    if item.own is not None:
        _draw_pixels(sheet, images, item.own, (OWN, top), side=SMALL)
        sheet.text(OWN, top + SMALL + 0.03, "its own", fontsize=8, color=style.FAINT, va="top")
    for number, hit in enumerate(item.hits):
        _draw_pixels(sheet, images, hit.place, (HITS + 0.8 * number, top), hit, side=SMALL)


def _draw_facts(sheet: style.Axes, item: Extreme, corner: tuple[float, float], more: str = "") -> None:
    text = style.shortened(f"log σ {style.signed(item.width)}, {item.matches:,} match{more}", FACTS)
    sheet.text(corner[0], corner[1] + 0.02, text, fontsize=8, color=style.FAINT, va="top")


def _draw_mark(sheet: style.Axes, hit: RetrievedItem, corner: tuple[float, float], **looks: Any) -> None:  # noqa: ANN401
    mark, colour = ("✓", RIGHT) if hit.right else ("✗", WRONG)
    sheet.text(*corner, mark, fontsize=8.5, color=colour, va="top", fontweight="bold", **looks)


def _draw_pixels(
    sheet: style.Axes,
    images: ImageSource | None,
    row: int,
    corner: tuple[float, float],
    hit: RetrievedItem | None = None,
    side: float = SIDE,
) -> None:
    """An image in a frame; a hit has a mark, and a frame that tells whether it is relevant."""
    left, top = corner
    if images is not None and (pixels := central_square(images, row)) is not None:
        extent = (left, left + side, top + side, top)
        sheet.imshow(pixels, extent=extent, aspect="auto", interpolation="antialiased")
    colour = style.FAINT if hit is None else RIGHT if hit.right else WRONG
    dash, line = ("-", 1.0) if hit is None else ("-" if hit.right else "--", 1.8)
    looks = {"edgecolor": colour, "linestyle": dash, "linewidth": line}
    sheet.add_patch(style.patch("Rectangle", corner, side, side, fill=False, **looks))
    if hit is not None:
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        _draw_mark(sheet, hit, (left + 0.05, top + 0.05), bbox=box)
    sheet.set(xlim=(0, style.WIDTH), ylim=(sheet.get_ylim()[0], 0))


def central_square(images: ImageSource, row: int) -> UInt8[np.ndarray, "h w 3"] | None:
    """The central square of an image; None where it cannot be read."""
    try:
        image = images.load(row)
    except ImageError:
        return None
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side))
    return np.asarray(square.resize((THUMBNAIL, THUMBNAIL)))


def _wrapped(text: str, width: int, lines: int) -> str:
    return "\n".join(textwrap.wrap(text, width, max_lines=lines, placeholder=" …"))
