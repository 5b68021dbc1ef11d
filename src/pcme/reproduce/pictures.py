"""Figures: a table of a result as bars or curves."""

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pcme import plots
from pcme.core import files
from pcme.plots.style import styled
from pcme.reproduce.base import Column, Plot
from pcme.reproduce.outcome import Result, ResultRow, ResultTable, Values


class Spread(NamedTuple):
    """Means over the seeds, and a standard deviation to either side where there are several."""

    mean: list[float]
    low: list[float] | None
    high: list[float] | None


def save(result: Result, stem: Path, *, png: bool = True) -> None:
    """Draw every table of a result that has a plot into `stem`-1.svg, `stem`-1.png and so on."""
    for number, table in enumerate(result.plotted, start=1):
        figure, name = draw(table), f"{stem.name}-{number}"
        if png:
            plots.save(figure, stem.with_name(name))
        else:
            files.write_text(stem.with_name(f"{name}.svg"), plots.svg(figure))


@styled
def draw(table: ResultTable) -> plots.Figure:
    """The figure of a table, as its plot says."""
    how = table.plot
    assert how is not None, "others have drawings"
    indices = [table.index(title) for title in how.columns] or list(range(len(table.columns)))
    if how.over == "bars":
        return _bars(table, how, indices)
    curves = _over_columns(table, indices) if how.over == "columns" else _over_rows(table, indices)
    figure = plots.lines(curves, x_label=how.x, y_label=how.y, title=table.title, log_x=how.log_x)
    ticks = sorted({float(x) for curve in curves for x in curve.x})
    figure.axes[0].set_xticks(ticks, [how.names.get(x, f"{x:g}") for x in ticks])
    figure.axes[0].minorticks_off()
    if all(table.columns[index].percent for index in indices):
        low, high = figure.axes[0].get_ylim()
        figure.axes[0].set_ylim(max(low, -1), min(high, 101))  # nothing lies outside of 0 to 100
    return figure


def _bars(table: ResultTable, how: Plot, indices: Sequence[int]) -> plots.Figure:
    """One group per row that has all the values, one bar per column."""
    rows = _whole(table, indices)
    series = [
        plots.Bars(table.columns[index].title, *_spread((table.columns[index], row.values[index]) for row in rows))
        for index in indices
    ]
    return plots.bars(
        [row.label for row in rows],
        series,
        y_label=how.y,
        title=table.title,
        horizontal=True,
        height=1.2 + 0.16 * len(rows) * (1 + len(indices)),
    )


def _over_columns(table: ResultTable, indices: Sequence[int]) -> list[plots.Line]:
    """One line per row that has all the values, one point per column."""
    x = [_x(table.columns[index]) for index in indices]
    return [
        plots.Line(row.label, x, *_spread((table.columns[index], row.values[index]) for index in indices))
        for row in _whole(table, indices)
    ]


def _over_rows(table: ResultTable, indices: Sequence[int]) -> list[plots.Line]:
    """One line per series of rows and column, one point per row."""
    lines = []
    for series in dict.fromkeys(row.series for row in table.rows):
        rows = [row for row in table.rows if row.series == series]
        for index in indices:
            column = table.columns[index]
            name = ", ".join(filter(None, (series, column.title)))
            spread = _spread((column, row.values[index]) for row in rows)
            lines.append(plots.Line(name, [_x(row) for row in rows], *spread))
    return lines


def _whole(table: ResultTable, indices: Sequence[int]) -> list[ResultRow]:
    """The rows that have a value in each of these columns."""
    return [row for row in table.rows if all(table.columns[index].shown(row.values[index]) for index in indices)]


def _spread(cells: Iterable[tuple[Column, Values]]) -> Spread:
    """The values of some cells, one or more per cell, as they are shown."""
    shown = [column.shown(values) for column, values in cells]
    means = [statistics.fmean(values) for values in shown]
    if any(len(values) < 2 for values in shown):
        return Spread(means, None, None)
    spreads = [(mean, statistics.stdev(values)) for mean, values in zip(means, shown, strict=True)]
    return Spread(means, [mean - spread for mean, spread in spreads], [mean + spread for mean, spread in spreads])


def _x(point: Column | ResultRow) -> float:
    assert point.x is not None, "rows and columns that are drawn over have a position"
    return point.x
