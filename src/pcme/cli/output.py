"""What the verbs print with: tables, JSON, progress. Results to stdout, progress to stderr."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

    from pcme.cli.reporter import BarReporter

__all__ = ["Json", "print_json", "print_table", "progress_bar", "training_bar"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_json(value: object) -> None:
    """Print a JSON document on stdout; what JSON has no number for (NaN, infinity) becomes null."""
    typer.echo(json.dumps(_finite(value), ensure_ascii=False, indent=2, allow_nan=False))


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
def progress_bar() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """A factory of bars on stderr: `bar("train")(done, total)` moves the bar called "train".

    Bars show the time left; without a terminal nothing is drawn.
    """
    with _progress() as progress:
        yield lambda name: _mover(progress, name)


@contextmanager
def training_bar() -> Iterator[BarReporter]:
    """A reporter that draws a training run on stderr: step, rate, time left, the loss's terms."""
    from pcme.cli.reporter import BarReporter

    with _progress(values=True) as progress:
        yield BarReporter(progress)


def _progress(*, values: bool = False) -> Progress:
    """Bars with the time left; with `values` also the rate and what the task reports, cut to fit.

    What matters for waiting comes first: on a narrow terminal only the end of the values is lost.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(20 if values else 40),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        *(
            [
                TextColumn(
                    "{task.fields[values]}",
                    table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
                )
            ]
            if values
            else []
        ),
        console=console,
        expand=values,
        transient=True,
        disable=not console.is_terminal,
    )


def _mover(progress: Progress, name: str) -> Callable[[int, int], None]:
    task = progress.add_task(name, total=None)
    return lambda done, total: progress.update(task, completed=done, total=total)
