"""Figures: a table of a result as bars or curves."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pcme import plots
from pcme.core import files
from pcme.plots.style import styled
from pcme.reproduce.outcome import Result, ResultTable, Values, known


class Spread(NamedTuple):
    """Means over the seeds, and a standard deviation to either side where there are several."""

    mean: list[float]
    low: list[float] | None
    high: list[float] | None


def save(result: Result, stem: Path, *, png: bool = True) -> None:
    """Draw every table of a result into `stem`-1.svg, `stem`-1.png and so on."""
    for number, table in enumerate(result.tables, start=1):
        figure, name = draw(table), f"{stem.name}-{number}"
        if png:
            plots.save(figure, stem.with_name(name))
        else:
            files.write_text(stem.with_name(f"{name}.svg"), plots.svg(figure))


@styled
def draw(table: ResultTable) -> plots.Figure:
    """The figure of a table, as its plot says."""
    how = table.plot
    indices = [table.index(title) for title in how.columns] or list(range(len(table.columns)))
    if how.over == "bars":
        return _bars(table, indices)
    curves = _over_columns(table, indices) if how.over == "columns" else _over_rows(table, indices)
    figure = plots.lines(curves, x_label=how.x, y_label=how.y, title=table.title, log_x=how.log_x)
    ticks = sorted({float(x) for curve in curves for x in curve.x})
    figure.axes[0].set_xticks(ticks, [how.names.get(x, f"{x:g}") for x in ticks])
    figure.axes[0].minorticks_off()
    if all(table.columns[index].percent for index in indices):
        low, high = figure.axes[0].get_ylim()
        figure.axes[0].set_ylim(max(low, -1), min(high, 101))  # nothing lies outside of 0 to 100
    return figure


def _bars(table: ResultTable, indices: Sequence[int]) -> plots.Figure:
    """One group per row that has all the values, one bar per column."""
    rows = [row for row in table.rows if all(known(row.values[index]) for index in indices)]
    series = [
        plots.Bars(table.columns[index].title, *_spread(table, index, [row.values[index] for row in rows]))
        for index in indices
    ]
    return plots.bars(
        [row.label for row in rows],
        series,
        y_label=table.plot.y,
        title=table.title,
        horizontal=True,
        height=1.2 + 0.16 * len(rows) * (1 + len(indices)),
    )


def _over_columns(table: ResultTable, indices: Sequence[int]) -> list[plots.Line]:
    """One line per row that has all the values, one point per column."""
    x = [_x(table.columns[index].x) for index in indices]
    lines = []
    for row in table.rows:
        if all(known(row.values[index]) for index in indices):
            points = [_spread(table, index, [row.values[index]]) for index in indices]
            lines.append(plots.Line(row.label, x, *_joined(points)))
    return lines


def _over_rows(table: ResultTable, indices: Sequence[int]) -> list[plots.Line]:
    """One line per series of rows and column, one point per row."""
    lines = []
    for series in dict.fromkeys(row.series for row in table.rows):
        rows = [row for row in table.rows if row.series == series]
        for index in indices:
            name = ", ".join(part for part in (series, table.columns[index].title) if part)
            values = [row.values[index] for row in rows]
            x = [_x(row.x) for row in rows]
            lines.append(plots.Line(name, x, *_spread(table, index, values)))
    return lines


def _spread(table: ResultTable, index: int, values: Sequence[Values]) -> Spread:
    """The values of a column, one or more per item, as they are shown."""
    factor = 100 if table.columns[index].percent else 1
    shown = [[factor * value for value in known(seeds)] for seeds in values]
    means = [statistics.fmean(seeds) for seeds in shown]
    if any(len(seeds) < 2 for seeds in shown):
        return Spread(means, None, None)
    off = [statistics.stdev(seeds) for seeds in shown]
    low = [mean - by for mean, by in zip(means, off, strict=True)]
    return Spread(means, low, [mean + by for mean, by in zip(means, off, strict=True)])


def _joined(points: Sequence[Spread]) -> Spread:
    low = [point.low[0] for point in points if point.low is not None]
    high = [point.high[0] for point in points if point.high is not None]
    whole = len(low) == len(points)
    return Spread([p.mean[0] for p in points], low if whole else None, high if whole else None)


def _x(value: float | None) -> float:
    assert value is not None, "rows and columns that are drawn over have a position"
    return value
