"""pcme report: all that is known of a run on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pcme.cli.output import DataRoot, Json, Split, Workers, print_json, progress_bars


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    *,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    data_root: DataRoot = None,
    split: Split = "test",
    workers: Workers = 2,
    as_json: Json = False,
) -> None:
    """Write one self-contained page: metrics, searches, all figures, the recipe, the commands."""
    from pcme.showcase import gather, require_writable, write_page

    require_writable(out)
    with progress_bars() as progress:
        gathered = gather(run, split=split, data_root=data_root, workers=workers, progress=progress)
    path = write_page(gathered, out)
    if as_json:
        figures = [figure.name for figure in gathered.figures]
        print_json({"page": str(path), "bytes": path.stat().st_size, "figures": figures})
    else:
        typer.echo(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
