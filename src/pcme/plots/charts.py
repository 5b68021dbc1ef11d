"""Lines and bars: general charts in the house style, and the parts that figures are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pcme.errors import ShapeError
from pcme.plots.style import DASHES, HATCHES, INK, MARKERS, PALETTE, Axes, Figure, grid, log_axis, styled

T = TypeVar("T")

BAND = 0.16
"""The opacity of a band."""
HEIGHT = 3.4
"""Inches."""


@dataclass(frozen=True)
class Line:
    """A line through points, with a band from `low` to `high` where they are given."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None

    def __post_init__(self) -> None:
        _check_lengths(self.name, self.x, self.y, self.low, self.high)


@dataclass(frozen=True)
class Bars:
    """One bar per group, with an interval from `low` to `high` where they are given."""

    name: str
    value: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None

    def __post_init__(self) -> None:
        _check_lengths(self.name, self.value, self.low, self.high)


def _check_lengths(name: str, *lists: Sequence[float] | None) -> None:
    """Refuse lists of different lengths, and one end of the intervals (the last two lists) without the other."""
    lengths = {len(values) for values in lists if values is not None}
    if len(lengths) != 1 or (lists[-2] is None) != (lists[-1] is None):
        raise ShapeError(f'series "{name}": must have lists of one length, and low with high.')


@styled
def lines(
    series: Sequence[Line], *, x_label: str, y_label: str, title: str = "", log_x: bool = False, log_y: bool = False
) -> Figure:
    """Lines in one panel.

    >>> lines([Line("ours", [1, 2], [3, 4])], x_label="J", y_label="R@1 (%)").axes[0].get_xlabel()
    'J'
    """
    figure, (axes,) = grid(height=HEIGHT)
    for which in ("x",) * log_x + ("y",) * log_y:
        log_axis(axes, which)
    add_lines(axes, series)
    axes.set(xlabel=x_label, ylabel=y_label, title=title)
    if len(series) > 1:
        axes.legend()
    return figure


@styled
def bars(
    groups: Sequence[str],
    series: Sequence[Bars],
    *,
    y_label: str,
    x_label: str = "",
    title: str = "",
    horizontal: bool = False,
    height: float = HEIGHT,
) -> Figure:
    """Bars side by side in groups; `horizontal` for groups with long names.

    >>> drawn = bars(["mean", "w2"], [Bars("i2t", [26.1, 26.2])], y_label="R-Precision (%)")
    >>> [text.get_text() for text in drawn.axes[0].get_xticklabels()]
    ['mean', 'w2']
    """
    figure, (axes,) = grid(height=height)
    add_bars(axes, groups, series, horizontal=horizontal)
    across, up = (y_label, x_label) if horizontal else (x_label, y_label)
    axes.set(xlabel=across, ylabel=up, title=title)
    if len(series) > 1:
        figure.legend(loc="outside lower center", ncols=min(len(series), 4))
    return figure


def side_by_side(parts: Sequence[T], draw: Callable[[Axes, T], None], *, height: float, y_label: str = "") -> Figure:
    """One panel per part, which `draw` fills; the label of y is the first panel's."""
    figure, panels = grid(len(parts), height=height)
    for axes, part in zip(panels, parts, strict=True):
        draw(axes, part)
    if y_label:
        panels[0].set_ylabel(y_label)
    return figure


def add_lines(axes: Axes, series: Sequence[Line], *, first: int = 0) -> None:
    """Draw lines into a panel; the n-th has the n-th colour, marker and dash, from `first` on."""
    for number, line in enumerate(series, start=first):
        colour, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
        dash = DASHES[number % len(DASHES)]
        axes.plot(line.x, line.y, color=colour, marker=marker, linestyle=dash, label=line.name, mec="white", mew=0.6)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=BAND, linewidth=0)


def add_bars(axes: Axes, groups: Sequence[str], series: Sequence[Bars], *, horizontal: bool = False) -> None:
    """Draw bars into a panel; the n-th of a group has the n-th colour and hatch."""
    thickness = 0.8 / len(series)
    centres = np.arange(len(groups))
    draw = axes.barh if horizontal else axes.bar
    for number, part in enumerate(series):
        if len(part.value) != len(groups):
            raise ShapeError(
                f'bars "{part.name}": must have one value per group, {len(groups)}, got {len(part.value)}.'
            )
        where = centres + (number - (len(series) - 1) / 2) * thickness
        looks: dict[str, Any] = {"color": PALETTE[number % len(PALETTE)], "hatch": HATCHES[number % len(HATCHES)]}
        draw(where, part.value, thickness * 0.92, label=part.name, edgecolor="white", linewidth=0.5, **looks)
        _add_intervals(axes, where.tolist(), part, horizontal=horizontal)
    axes.grid(visible=False, axis="y" if horizontal else "x")
    if horizontal:
        axes.set_yticks(centres, groups)
        axes.invert_yaxis()
    else:
        axes.set_xticks(centres, groups)


def _add_intervals(axes: Axes, where: Sequence[float], part: Bars, *, horizontal: bool) -> None:
    if part.low is None or part.high is None:
        return
    # a percentile interval may lie beside its value; matplotlib refuses lengths below zero
    reach = np.maximum([np.subtract(part.value, part.low), np.subtract(part.high, part.value)], 0)
    x, y, error = (part.value, where, "xerr") if horizontal else (where, part.value, "yerr")
    looks: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 0.9, "capsize": 2, error: reach}
    axes.errorbar(x, y, **looks)
