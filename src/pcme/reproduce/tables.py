"""Tables: results as Markdown, ours beside the paper's."""

import statistics
from collections.abc import Sequence

from pcme.reproduce.base import Column
from pcme.reproduce.outcome import Difference, Drawing, Result, ResultRow, ResultTable

NO_IMAGES = "The figure shows images of the data, which are not in the record: the command above draws it."


def document(
    result: Result, *, level: int = 1, picture: str | None = None, protocol: bool = True, images: bool = True
) -> str:
    """A result as a page or a section: tables, claims, drawings, and how it differs from the paper.

    `picture` is the path of its figures without number and suffix; `protocol` repeats how the setup differs. Without
    `images`, figures that show images of the split are not there.
    """
    parts, number = [f"{'#' * level} {heading(result)}", _about(result)], 0
    for table in result.tables:
        source = f"The paper's values are those of {table.source}." if table.source else ""
        parts.append(" ".join(filter(None, (f"**{table.title}.**", source, _sizes(table)))))
        parts.append(markdown(table))
        if table.differences:
            parts.append(_claims(table.differences))
        if picture is not None and table.plot is not None:
            number += 1
            parts.append(f"![{result.summary} {table.title}]({picture}-{number}.svg)")
    read = ""
    for index, drawing in enumerate(result.drawings):
        if picture is None and not drawing.numbers:
            continue  # there is nothing to see
        reading, read = "" if drawing.reading == read else f" {drawing.reading}", drawing.reading
        parts.append(f"**{drawing.title}.**{reading}")
        if drawing.numbers:
            parts.append(_stated(drawing))
        if picture is not None:
            there, path = images or not drawing.shows_images, f"{picture}-{result.picture(index)}.svg"
            parts.append(f"![{result.summary} {drawing.title}]({path})" if there else NO_IMAGES)
    differs = ([result.protocol] if protocol else []) + list(result.differs)
    parts.append(f"How this differs from the paper: {' '.join(differs)}")
    return "\n\n".join(parts) + "\n"


def heading(result: Result) -> str:
    """The experiment, and on what data."""
    return ", ".join([f"{result.experiment} on {result.world}", *result.marks])


def markdown(table: ResultTable) -> str:
    """The rows; each metric that the paper has is followed by the paper's value."""
    shown = [any(row.paper[n] is not None for row in table.rows) for n in range(len(table.columns))]
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
    shown = column.shown(values)
    if not shown:
        return "–"
    mean = f"{statistics.fmean(shown):.{column.digits}f}"
    deviation = f" ± {statistics.stdev(shown):.{column.digits}f}" if len(shown) > 1 else ""
    return (mean + deviation).replace("-", "−")


def _cells(table: ResultTable, row: ResultRow, shown: Sequence[bool]) -> list[str]:
    cells = []
    for index, column in enumerate(table.columns):
        cells.append(spread(row.values[index], column))
        if shown[index]:
            value = row.paper[index]
            text = "" if value is None else f"{value:.{table.source_digits}f}"
            cells.append(text.replace("-", "−"))
    return cells


def _about(result: Result) -> str:
    seeds = "one seed" if result.seeds == 1 else f"mean ± standard deviation over {result.seeds} seeds"
    if not result.tables:
        return f"{result.summary} In the paper: {result.where}. Here: `{result.command}`; nothing is trained."
    return f"{result.summary} In the paper: {result.where}. Here: {seeds}, `{result.command}` ({spent([result])})."


def spent(results: Sequence[Result]) -> str:
    """The number of runs and their processor time; runs of several results count once."""
    runs = {digest: run for result in results for digest, run in result.trainings.items()}.values()
    resumed, minutes = sum(run.resumed for run in runs), sum(run.seconds for run in runs) / 60
    interrupted = f", without what was interrupted of {resumed} of them" if resumed else ""
    return f"{len(runs)} runs, {minutes:.0f} min of processor time for training{interrupted}"


def _sizes(table: ResultTable) -> str:
    sizes, folds = table.sizes, _folds(table)
    if not sizes:
        return folds
    counts = f"{folds} {sizes['images']:,.0f} images, {sizes['captions']:,.0f} captions".strip()
    if not any(column.metric.endswith("r_precision") for column in table.columns):
        return f"{counts}."
    chance = 100 * (sizes["i2t chance"] + sizes["t2i chance"]) / 2
    return f"{counts}; R-Precision by chance {chance:.1f}."


def _folds(table: ResultTable) -> str:
    return f"Cross-validation: values and sizes are means over {', '.join(table.folds)}." if table.folds else ""


def _stated(drawing: Drawing) -> str:
    """The numbers of a drawing, with their meanings."""
    head = [["", "", "meaning"], ["---", "---:", "---"]]
    return piped([*head, *([number.name, _plain(number.value), number.meaning] for number in drawing.numbers)])


def _plain(value: float | None) -> str:
    """ "1,280", "0.512"; a dash for none."""
    if value is None:
        return "–"
    return (f"{value:,.0f}" if value == round(value) else f"{value:,.3g}").replace("-", "−")


def _claims(differences: Sequence[Difference]) -> str:
    intervals = [claim.interval for claim in differences]
    between = ["95 % interval"] if any(intervals) else []
    lines = [["what the paper finds", "difference here", *between, "in the paper", "here?"]]
    lines.append(["---"] * len(lines[0]))
    for claim, interval in zip(differences, intervals, strict=True):
        ours = spread(claim.values, Column("", "", percent=False, digits=claim.digits))
        signed = ours if ours.startswith("−") else f"+{ours}"
        paper = "" if claim.paper is None else f"{claim.paper:+.{claim.digits}f}"
        ends = " to ".join(f"{end:+.{claim.digits}f}" for end in interval or ())
        numbers = [*([ends] if between else []), paper]
        lines.append([claim.text, signed, *(cell.replace("-", "−") for cell in numbers), claim.verdict])
    return piped(lines)


def piped(lines: Sequence[Sequence[str]]) -> str:
    """Cells as a Markdown table; the second line aligns the columns."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
