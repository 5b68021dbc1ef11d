"""pcme reproduce: the paper's tables and figures, made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pcme.cli.output import DataRoot, Json, print_json

if TYPE_CHECKING:
    from pcme.reproduce import JobEnded


REPORT = "report"


def reproduce(
    experiments: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPERIMENT...",
            help='Names or aliases of `pcme list experiments` (table-d1), or "all"; "report" writes the document.',
        ),
    ],
    *,
    data: Annotated[str, typer.Option(help="aviary, cub, cub-pairs or coco.")] = "aviary",
    data_root: DataRoot = None,
    seeds: Annotated[int | None, typer.Option(help="Runs per row (default: 3, or 1 with --quick).", min=1)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs, one per row.")] = False,
    folds: Annotated[
        bool,
        typer.Option("--folds", help="Cross-validate all of it, not only what the paper does, if the data has folds."),
    ] = False,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a key of the recipe in all runs: image.weights=FILE.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for runs/ and results/; for the report, its file.")] = None,
    results: Annotated[Path | None, typer.Option(help="For the report: the folder of results.")] = None,
    tables_only: Annotated[bool, typer.Option("--tables-only", help="For the report: leave out the figures.")] = False,
    jobs: Annotated[int, typer.Option(help="Runs at a time, one thread each.", min=1)] = 2,
    as_json: Json = False,
) -> None:
    """Make tables and figures of the paper again, beside the paper's values.

    Finished runs are reused; interrupted runs resume.
    """
    from pcme.reproduce import report
    from pcme.reproduce import reproduce as run
    from pcme.reproduce.outcome import record
    from pcme.reproduce.tables import document

    if experiments == [REPORT]:
        folder = results or Path("runs/reproduce/results")
        path = out or folder.with_name(f"{folder.name}.md")
        outcomes = report(path, source=results, figures=not tables_only)
        text = f"wrote {path}: {', '.join(result.name for result in outcomes)}"
    else:
        folder = out or Path("runs/reproduce")
        outcomes = run(
            experiments, data=data, data_root=data_root, seeds=seeds, quick=quick, folds=folds, out=folder,
            jobs=jobs, changes=changes or [], ended=_print_ended,
            progress=lambda _, done, total: _print_plan((total or 0) - done, total or 0, jobs),
        )  # fmt: skip
        text = "\n".join([*map(document, outcomes), f"wrote {folder / 'results'}"])
    if as_json:
        print_json([record(result) for result in outcomes])
    else:
        typer.echo(text)


def _print_plan(missing: int, total: int, jobs: int) -> None:
    todo = f"{missing} of {total} runs to make, {min(jobs, missing)} at a time"
    if total:
        typer.echo(todo if missing else f"all {total} runs are there", err=True)


def _print_ended(job: JobEnded) -> None:
    """Print one line per run that has ended, with the time left."""
    left = f", about {_duration(job.left)} left" if job.done < job.total else ""
    text = f"{_duration(job.seconds)}{left}" if job.failure is None else job.failure
    typer.echo(f"[{job.done}/{job.total}] {job.label}: {text}", err=True)


def _duration(seconds: float) -> str:
    """A duration for people: "48 s", "12 min", "3.4 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
