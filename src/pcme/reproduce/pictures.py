"""Drawing: a table of a result as bars or curves, through the package's own charts."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pcme import plots
from pcme.plots.style import styled
from pcme.reproduce.outcome import Result, ResultTable, Values, known

__all__ = ["draw", "save"]


class Spread(NamedTuple):
    """Means over the seeds, and a standard deviation to either side where there are several."""

    mean: list[float]
    low: list[float] | None
    high: list[float] | None


def save(result: Result, stem: Path) -> list[Path]:
    """Draw every table of a result into `stem`-1.svg, `stem`-1.png and so on."""
    written: list[Path] = []
    for number, table in enumerate(result.tables, start=1):
        written += plots.save(draw(table), stem.with_name(f"{stem.name}-{number}"))
    return written


@styled
def draw(table: ResultTable) -> plots.Figure:
    """The picture of a table, as its plot says."""
    how = table.plot
    places = [table.place(title) for title in how.columns] or list(range(len(table.columns)))
    if how.over == "bars":
        return _bars(table, places)
    curves = _over_columns(table, places) if how.over == "columns" else _over_rows(table, places)
    figure = plots.lines(curves, x_label=how.x, y_label=how.y, title=table.title, log_x=how.log_x)
    ticks = sorted({float(x) for curve in curves for x in curve.x})
    figure.axes[0].set_xticks(ticks, [how.names.get(x, f"{x:g}") for x in ticks])
    figure.axes[0].minorticks_off()
    if all(table.columns[place].percent for place in places):
        low, high = figure.axes[0].get_ylim()
        figure.axes[0].set_ylim(max(low, -1), min(high, 101))  # nothing lies outside of 0 to 100
    return figure


def _bars(table: ResultTable, places: Sequence[int]) -> plots.Figure:
    """A group for each row that has all the values, a bar for each column."""
    rows = [row for row in table.rows if all(known(row.values[place]) for place in places)]
    series = [
        plots.Bars(
            table.columns[place].title, *_spread(table, place, [row.values[place] for row in rows])
        )
        for place in places
    ]
    return plots.bars(
        [row.label for row in rows],
        series,
        y_label=table.plot.y,
        title=table.title,
        horizontal=True,
        height=1.2 + 0.16 * len(rows) * (1 + len(places)),
    )


def _over_columns(table: ResultTable, places: Sequence[int]) -> list[plots.Line]:
    """A line for each row that has all the values, a point for each column."""
    x = [_x(table.columns[place].x) for place in places]
    lines = []
    for row in table.rows:
        if all(known(row.values[place]) for place in places):
            points = [_spread(table, place, [row.values[place]]) for place in places]
            lines.append(plots.Line(row.label, x, *_joined(points)))
    return lines


def _over_rows(table: ResultTable, places: Sequence[int]) -> list[plots.Line]:
    """A line for each series of rows and each column, a point for each row."""
    lines = []
    for series in dict.fromkeys(row.series for row in table.rows):
        rows = [row for row in table.rows if row.series == series]
        for place in places:
            name = ", ".join(part for part in (series, table.columns[place].title) if part)
            values = [row.values[place] for row in rows]
            x = [_x(row.x) for row in rows]
            lines.append(plots.Line(name, x, *_spread(table, place, values)))
    return lines


def _spread(table: ResultTable, place: int, values: Sequence[Values]) -> Spread:
    """Of a column's values, one or more of each item, as they are shown."""
    factor = 100 if table.columns[place].percent else 1
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
    assert value is not None, "what is drawn over has a place"
    return value
