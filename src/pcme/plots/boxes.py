"""Diagrams of boxes and arrows, for what is a structure and no data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pcme.plots.style import FAINT, INK, PALETTE, WIDTH, Figure, blank, patch, styled

Point = tuple[float, float]

GREY = "#f1f3f6"
COLOURS = {"given": "white", "learned": "#dbe9f6", "plain": GREY}
"""What a box is: something given, something with weights, or a step without any."""
ARROW: dict[str, Any] = {
    "arrowstyle": "-|>", "color": INK, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Box:
    """A box with text: its upper left corner and its size in inches, from the upper left of the figure."""

    x: float
    y: float
    width: float
    height: float
    text: str
    kind: str = "plain"

    @property
    def left(self) -> Point:
        """The middle of its left side."""
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        """The middle of its right side."""
        return self.x + self.width, self.y + self.height / 2

    @property
    def top(self) -> Point:
        """The middle of its upper side."""
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> Point:
        """The middle of its lower side."""
        return self.x + self.width / 2, self.y + self.height


@dataclass(frozen=True)
class Heading:
    """Bold text at a place of its own."""

    x: float
    y: float
    text: str


@styled
def diagram(
    boxes: Sequence[Box], arrows: Sequence[tuple[Point, Point]], headings: Sequence[Heading] = (), *, height: float
) -> Figure:
    """Draw boxes, arrows from point to point, and headings.

    >>> drawn = diagram([Box(0.1, 0.1, 1.5, 0.5, "a GRU", "learned")], [((1.6, 0.35), (2.0, 0.35))], height=0.7)
    >>> [text.get_text() for text in drawn.axes[0].texts if text.get_text()]
    ['a GRU']
    """
    figure = blank(height, layout=None)
    sheet = figure.add_axes((0, 0, 1, 1))
    sheet.set(xlim=(0, WIDTH), ylim=(height, 0))
    sheet.set_axis_off()
    for box in boxes:
        looks = {"facecolor": COLOURS[box.kind], "edgecolor": PALETTE[0] if box.kind == "learned" else FAINT}
        dash = "--" if box.kind == "given" else "-"
        sheet.add_patch(patch("Rectangle", (box.x, box.y), box.width, box.height, linestyle=dash, **looks))
        middle = (box.x + box.width / 2, box.y + box.height / 2)
        sheet.text(*middle, box.text, ha="center", va="center", fontsize=8, linespacing=1.25)
    for start, end in arrows:
        sheet.annotate("", xy=end, xytext=start, arrowprops=ARROW)
    for heading in headings:
        sheet.text(heading.x, heading.y, heading.text, fontsize=9.5, fontweight="bold", va="center")
    return figure
