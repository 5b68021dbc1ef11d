"""Tables: results as Markdown, ours beside the paper's."""

import statistics
from collections.abc import Sequence

from pcme.reproduce.base import Column
from pcme.reproduce.outcome import Difference, Result, ResultRow, ResultTable, known

__all__ = ["document", "heading", "markdown", "piped", "spent", "spread"]


def document(
    result: Result, *, level: int = 1, picture: str | None = None, protocol: bool = True
) -> str:
    """A result as a page, or as a section of one: tables, claims, and how it differs.

    `picture` is the path of its plots without number and suffix; `protocol` can be left out where
    it has been said already.
    """
    parts = [f"{'#' * level} {heading(result)}", _about(result)]
    for number, table in enumerate(result.tables, start=1):
        parts.append(" ".join(filter(None, (f"**{table.title}.**", _beside(table), _sizes(table)))))
        parts.append(markdown(table))
        if table.differences:
            parts.append(_claims(table.differences))
        if picture is not None:
            parts.append(f"![{result.summary} {table.title}]({picture}-{number}.svg)")
    differs = ([result.protocol] if protocol else []) + list(result.differs)
    parts.append(f"How this differs from the paper: {' '.join(differs)}")
    return "\n\n".join(parts) + "\n"


def heading(result: Result) -> str:
    """The experiment, and on what data."""
    return f"{result.experiment} on {result.world}{', quick' if result.quick else ''}"


def markdown(table: ResultTable) -> str:
    """The rows; each metric that the paper has is followed by the paper's value."""
    shown = [_with_paper(table, place) for place in range(len(table.columns))]
    header = [""]
    for column, paper in zip(table.columns, shown, strict=True):
        header += [column.title, "paper"] if paper else [column.title]
    lines = [header, ["---", *(["---:"] * (len(header) - 1))]]
    lines += [[row.label, *_cells(table, row, shown)] for row in table.rows]
    return piped(lines)


def spread(values: Sequence[float | None], column: Column) -> str:
    """Mean ± standard deviation over the seeds; a single value stands alone, a dash for none.

    >>> spread((0.25, 0.27), Column("i2t R-P", "i2t r_precision"))
    '26.0 ± 1.4'
    """
    found = [100 * value if column.percent else value for value in known(values)]
    if not found:
        return "–"
    middle = f"{statistics.fmean(found):.{column.digits}f}"
    more = f" ± {statistics.stdev(found):.{column.digits}f}" if len(found) > 1 else ""
    return (middle + more).replace("-", "−")


def _cells(table: ResultTable, row: ResultRow, shown: Sequence[bool]) -> list[str]:
    cells = []
    for place, column in enumerate(table.columns):
        cells.append(spread(row.values[place], column))
        if shown[place]:
            cells.append(_paper(row.paper[place], table.source_digits))
    return cells


def _with_paper(table: ResultTable, place: int) -> bool:
    return any(row.paper[place] is not None for row in table.rows)


def _paper(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}".replace("-", "−")


def _about(result: Result) -> str:
    several = f"mean ± standard deviation over {result.seeds} seeds"
    seeds = "one seed" if result.seeds == 1 else several
    return (
        f"{result.summary} In the paper: {result.where}. Here: {seeds}, `{result.command}` "
        f"({spent([result])})."
    )


def spent(results: Sequence[Result]) -> str:
    """How many runs, and how much processor time; what several results share counts once."""
    each = {digest: run for result in results for digest, run in result.trainings.items()}
    resumed = sum(run.resumed for run in each.values())
    less = f", without what was interrupted of {resumed} of them" if resumed else ""
    minutes = sum(run.seconds for run in each.values()) / 60
    return f"{len(each)} runs, {minutes:.0f} min of processor time for training{less}"


def _beside(table: ResultTable) -> str:
    return f"The paper's values are those of {table.source}." if table.source else ""


def _sizes(table: ResultTable) -> str:
    if not table.sizes:
        return ""
    sizes = table.sizes
    counts = f"{sizes['images']:,.0f} images, {sizes['captions']:,.0f} captions"
    if not any(column.metric.endswith("r_precision") for column in table.columns):
        return f"{counts}."
    chance = 100 * (sizes["i2t chance"] + sizes["t2i chance"]) / 2
    return f"{counts}; R-Precision by chance {chance:.1f}."


def _claims(differences: Sequence[Difference]) -> str:
    lines = [["what the paper finds", "difference here", "in the paper", "here?"], ["---"] * 4]
    for found in differences:
        ours = spread(found.values, Column("", "", percent=False, digits=found.digits))
        paper = "" if found.paper is None else f"{found.paper:+.{found.digits}f}".replace("-", "−")
        lines.append([found.text, _signed(ours), paper, found.verdict])
    return piped(lines)


def _signed(text: str) -> str:
    return text if text.startswith("−") else f"+{text}"


def piped(lines: Sequence[Sequence[str]]) -> str:
    """Cells as a Markdown table; the second line says how columns are aligned."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
