"""The picture of `extremes`: a contact sheet of queries and what they find. Paper: §F.3."""

import textwrap

import numpy as np

from pcme.analysis.extremes import Extreme, Hit, Tails
from pcme.data.images.decoding import ImageError
from pcme.data.sources import ImageSource
from pcme.plots.style import FAINT, INK, PALETTE, WIDTH, Axes, Figure, Rectangle, signed, styled

__all__ = ["draw_extremes"]

RIGHT, WRONG = PALETTE[2], PALETTE[4]
THUMBNAIL = 160
"""Pixels a side."""
ROW, HEADING = 0.98, 0.34
"""Inches."""


@styled
def draw_extremes(result: Tails, images: ImageSource | None) -> Figure:
    """Four lists: the widest and narrowest images with captions, and captions with images."""
    lists = (
        ("the widest images, and the captions they find", "images", result.images.widest),
        ("the narrowest images", "images", result.images.narrowest),
        ("the widest captions, and the images they find", "captions", result.captions.widest),
        ("the narrowest captions", "captions", result.captions.narrowest),
    )
    rows = sum(len(items) for _, _, items in lists)
    height = rows * ROW + len(lists) * HEADING + 0.1
    figure = Figure(figsize=(WIDTH, height))
    sheet = figure.add_axes((0, 0, 1, 1))
    sheet.set(xlim=(0, WIDTH), ylim=(height, 0))
    sheet.set_axis_off()
    top = 0.05
    for title, of, items in lists:
        sheet.text(0.1, top + 0.2, title, fontweight="bold", fontsize=9.5, va="center")
        top += HEADING
        for item in items:
            (_image_row if of == "images" else _caption_row)(sheet, item, top, images)
            top += ROW
    return figure


def _image_row(sheet: Axes, item: Extreme, top: float, images: ImageSource | None) -> None:
    _picture(sheet, images, item.place, (0.1, top), None)
    _facts(sheet, item, (1.05, top))
    for place, hit in enumerate(item.hits):
        _caption_hit(sheet, hit, top + 0.2 + 0.17 * place)


def _caption_row(sheet: Axes, item: Extreme, top: float, images: ImageSource | None) -> None:
    _facts(sheet, item, (0.1, top))
    sheet.text(0.1, top + 0.22, _wrapped(f"“{item.text}”", 33, 4), fontsize=8, va="top")
    for place, hit in enumerate(item.hits):
        _picture(sheet, images, hit.place, (2.5 + 0.96 * place, top), hit)


def _facts(sheet: Axes, item: Extreme, corner: tuple[float, float]) -> None:
    text = f"log σ {signed(item.width)}, {item.matches:,} match"
    sheet.text(corner[0], corner[1] + 0.02, text, fontsize=8, color=FAINT, va="top")


def _caption_hit(sheet: Axes, hit: Hit, top: float) -> None:
    colour = RIGHT if hit.right else WRONG
    mark = "✓" if hit.right else "✗"
    sheet.text(1.05, top, mark, fontsize=8.5, color=colour, va="top", fontweight="bold")
    sheet.text(1.22, top, _wrapped(hit.text, 78, 1), fontsize=8, color=INK, va="top")


def _picture(
    sheet: Axes,
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
    colour = FAINT if hit is None else RIGHT if hit.right else WRONG
    dash = "--" if hit is not None and not hit.right else "-"
    frame = Rectangle((left, top), size, size, fill=False, edgecolor=colour, linestyle=dash)
    frame.set_linewidth(1.0 if hit is None else 1.8)
    sheet.add_patch(frame)
    if hit is not None:
        looks = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        sheet.text(
            left + 0.05, top + 0.05, "✓" if hit.right else "✗", fontsize=8.5, color=colour,
            va="top", fontweight="bold", bbox=looks,
        )  # fmt: skip
    sheet.set(xlim=(0, WIDTH), ylim=(sheet.get_ylim()[0], 0))


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
