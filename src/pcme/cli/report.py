"""pcme report: all that is known of a run on one page."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from pcme.cli.output import Json, print_json, progress_bar

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command(
        epilog="[bold]Example:[/bold] pcme report runs/aviary --out report.html",
    )(report)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    *,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    data_root: Annotated[
        Path | None, typer.Option(help="The dataset's folder, unless it is below $PCME_DATA.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split: test, seen, val, ...")] = "test",
    workers: Annotated[int, typer.Option(help="Threads that decode images.", min=0)] = 2,
    as_json: Json = False,
) -> None:
    """Write one self-contained page: metrics, searches, all figures, the recipe, the commands."""
    from pcme.showcase import gathered, require_writable, written

    require_writable(out)
    with progress_bar() as bar:
        bars = cache(bar)
        found = gathered(
            run,
            split=split,
            data_root=data_root,
            workers=workers,
            waiting=lambda what, done, total: bars(what)(done, total),
        )
    path = written(found, out)
    if as_json:
        figures = [figure.name for figure in found.figures]
        print_json({"page": str(path), "bytes": path.stat().st_size, "figures": figures})
    else:
        typer.echo(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
