"""Printing of the verbs: tables and JSON to stdout, progress and problems to stderr."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from pcme.core.progress import Progress
    from pcme.data import Problems


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DataRoot = Annotated[Path | None, typer.Option(help="The dataset's folder, unless it is below $PCME_DATA.")]
Split = Annotated[str, typer.Option(help="The split: test, seen, val, ...")]
Workers = Annotated[int, typer.Option(help="Threads that decode images.", min=0)]


def print_json(value: object) -> None:
    """Print a JSON document on stdout; what JSON has no number for (NaN, infinity) becomes null."""
    typer.echo(json.dumps(_finite(value), ensure_ascii=False, indent=2, allow_nan=False))


def print_outcome(record: Mapping[str, object], text: str, problems: Problems, *, as_json: bool) -> None:
    """Print what a verb has done, a record or a text, with the problems of the data on the way."""
    if as_json:
        print_json({**record, "problems": problems.record()})
        return
    typer.echo(text)
    if problems:
        typer.echo(problems.summary(), err=True)


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout; its last column wraps, the others never do."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column != columns[-1], overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """A progress callback that draws one bar per task on stderr, with the time left, if stderr is a terminal."""
    with make_bars() as bars:
        yield Movement(bars)


class Movement:
    """A progress callback that moves rich's bars; with `remove`, a full bar disappears."""

    def __init__(self, bars: Bars, *, remove: bool = False) -> None:
        self.bars, self.remove = bars, remove
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, task: str, done: int, total: int | None, /) -> None:
        """Move the bar of a task; its first step adds the bar."""
        if task not in self._tasks:
            self._tasks[task] = self.bars.add_task(task, total=total, values="")
        self.bars.update(self._tasks[task], completed=done, total=total)
        if self.remove and done == total:
            self.bars.remove_task(self._tasks.pop(task))


def make_bars(*, values: bool = False) -> Bars:
    """Bars with the time left; with `values` also the task's rate and values, whose end a narrow terminal cuts."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    console = Console(stderr=True)
    width, cut = (20 if values else 40), Column(no_wrap=True, overflow="ellipsis", ratio=1)
    reported = [TextColumn("{task.fields[values]}", table_column=cut)] if values else []
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(width),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        *reported,
        console=console,
        expand=values,
        transient=True,
        disable=not console.is_terminal,
    )
