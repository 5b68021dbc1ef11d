"""The picture of `words`. Paper: §F.2."""

from pcme.analysis.words import BinWords, SideWords, WordBins
from pcme.plots.style import (
    FAINT,
    INK,
    MARKERS,
    PALETTE,
    WIDTH,
    Axes,
    Figure,
    SubFigure,
    divided,
    panels_of,
    shortened,
    styled,
)

__all__ = ["draw_words"]

LONGEST = 12
LISTS, ENDS = 2.3, 3.4
"""Inches: the height of a row of lists, and of the panels below them."""


@styled
def draw_words(result: WordBins) -> Figure:
    """A row of lists for images and one for captions; below, the narrowest and widest words."""
    heights = [*[LISTS] * len(result.sides), ENDS]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    parts = divided(figure, heights=heights)
    for place, side in enumerate(result.sides):
        _lists(parts[place], side, PALETTE[place])
    panels = panels_of(parts[-1], 1, len(result.sides))
    for place, (axes, side) in enumerate(zip(panels, result.sides, strict=True)):
        _ends(axes, side, PALETTE[place], MARKERS[place])
    return figure


def _lists(part: SubFigure, side: SideWords, colour: str) -> None:
    longest = max((word.lift for one in side.bins for word in one.words), default=1.0)
    panels = panels_of(part, 1, len(side.bins))
    for axes, one in zip(panels, side.bins, strict=True):
        _list(axes, one, colour)
        axes.set_xlim(0, 1.05 * longest)
    part.suptitle(
        f"{side.of}: words by TF-IDF in bins of σ, the narrowest first", fontsize=9,
        fontweight="bold",
    )  # fmt: skip
    part.supxlabel(
        "number: median of mean log σ; bar: how often here against everywhere, dotted: as often",
        fontsize=8,
    )


def _list(axes: Axes, one: BinWords, colour: str) -> None:
    places = range(len(one.words))
    axes.barh(places, [word.lift for word in one.words], color=colour, alpha=0.35, height=0.86)
    axes.axvline(1, color=INK, linestyle=":", linewidth=1)
    for place, word in enumerate(one.words):
        axes.text(0, place, f" {shortened(word.word, LONGEST)}", va="center", fontsize=8)
    axes.set_title(
        f"{one.width:.2f}".replace("-", "−"), fontsize=8, fontweight="normal", loc="center"
    )
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    axes.spines["bottom"].set_visible(False)
    axes.grid(visible=False)


def _ends(axes: Axes, side: SideWords, colour: str, marker: str) -> None:
    words = [*side.narrowest, *reversed(side.widest)]
    places = range(len(words))
    axes.hlines(places, 50, [100 * word.place for word in words], color=FAINT, linewidth=0.8)
    axes.plot([100 * word.place for word in words], places, marker, color=colour, linestyle="none")
    axes.axhline(len(side.narrowest) - 0.5, color=INK, linestyle=":", linewidth=1)
    axes.set_yticks(places, [shortened(word.word, LONGEST) for word in words])
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), title=side.of, xlabel=f"{side.of} that are narrower (%, mean)")
    axes.set_ylabel("narrowest … widest")
