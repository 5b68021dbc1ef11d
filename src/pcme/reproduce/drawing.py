"""Drawing: a table of a result as bars or curves, through the package's own charts."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from pcme import plots
from pcme.reproduce.results import Result, ResultRow, ResultTable, Values, known

__all__ = ["draw", "save"]


def save(result: Result, stem: Path) -> list[Path]:
    """Draw every table of a result into `stem`-1.svg, `stem`-1.png and so on."""
    written: list[Path] = []
    for number, table in enumerate(result.tables, start=1):
        written += plots.save(draw(table), stem.with_name(f"{stem.name}-{number}"))
    return written


def draw(table: ResultTable) -> plots.Figure:
    """The picture of a table, as its plot says."""
    how = table.plot
    places = [table.place(title) for title in how.columns] or list(range(len(table.columns)))
    if how.over == "bars":
        return _bars(table, places)
    curves = _over_columns(table, places) if how.over == "columns" else _over_rows(table, places)
    return plots.lines(curves, x_label=how.x, y_label=how.y, title=table.title, log_x=how.log_x)


def _bars(table: ResultTable, places: Sequence[int]) -> plots.Figure:
    """A group for each row that has all the values, a bar for each column."""
    rows = [row for row in table.rows if all(known(row.values[place]) for place in places)]
    series = [
        plots.Bars(
            table.columns[place].title, *_spreads(table, place, [r.values[place] for r in rows])
        )
        for place in places
    ]
    height = 1.2 + 0.16 * len(rows) * (1 + len(places))
    groups = [row.label for row in rows]
    return plots.bars(
        groups, series, y_label=table.plot.y, title=table.title, horizontal=True, height=height
    )


def _over_columns(table: ResultTable, places: Sequence[int]) -> list[plots.Line]:
    """A line for each row, a point for each column."""
    x = [_x(table.columns[place].x) for place in places]
    lines = []
    for row in table.rows:
        if all(known(row.values[place]) for place in places):
            spreads = [_spreads(table, place, [row.values[place]]) for place in places]
            value, low, high = ([part[i][0] for part in spreads] for i in range(3))
            lines.append(plots.Line(row.label, x, value, low, high))
    return lines


def _over_rows(table: ResultTable, places: Sequence[int]) -> list[plots.Line]:
    """A line for each series of rows and each column, a point for each row."""
    lines = []
    for series in dict.fromkeys(row.series for row in table.rows):
        rows = [row for row in table.rows if row.series == series and row.x is not None]
        for place in places:
            name = ", ".join(part for part in (series, table.columns[place].title) if part)
            values = [row.values[place] for row in rows]
            lines.append(_line(table, name, place, rows, values))
    return lines


def _line(
    table: ResultTable, name: str, place: int, rows: Sequence[ResultRow], values: Sequence[Values]
) -> plots.Line:
    return plots.Line(name, [_x(row.x) for row in rows], *_spreads(table, place, values))


def _spreads(
    table: ResultTable, place: int, values: Sequence[Values]
) -> tuple[list[float], list[float], list[float]]:
    """(means, means less a standard deviation, means and one more), as they are shown."""
    factor = 100 if table.columns[place].percent else 1
    shown = [[factor * value for value in known(seeds)] for seeds in values]
    means = [statistics.fmean(seeds) for seeds in shown]
    off = [statistics.stdev(seeds) if len(seeds) > 1 else 0.0 for seeds in shown]
    low = [mean - by for mean, by in zip(means, off, strict=True)]
    return means, low, [mean + by for mean, by in zip(means, off, strict=True)]


def _x(value: float | None) -> float:
    assert value is not None, "what is drawn over has a place"
    return value
