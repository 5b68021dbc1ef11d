"""pcme index: create, add, delete, verify, describe, compact, tune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pcme.cli.output import Json, print_json, print_table, progress_bars

if TYPE_CHECKING:
    from pcme.index.health import Description, Verified
    from pcme.index.tuning import Tuning
    from pcme.index.writer import OnConflict

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    epilog="[bold]Example:[/bold] pcme index create birds --model runs/aviary · "
    "pcme index add birds photos/ · pcme search birds 'a small red bird'",
)

Where = Annotated[str, typer.Argument(metavar="INDEX", help="The index's folder, or URI.")]
Model = Annotated[
    Path | None, typer.Option("--model", help="The model's folder, if it is not where it was.")
]
Kinds = Annotated[
    Literal["image", "caption", "both"], typer.Option(help="What to take of a dataset.")
]
Splits = Annotated[
    list[str] | None, typer.Option("--split", help="Of a dataset: only this; may be repeated.")
]


@app.command(epilog="[bold]Example:[/bold] pcme index create birds --model runs/aviary")
def create(
    where: Where,
    *,
    model: Annotated[Path | None, typer.Option(help="A run's folder.")] = None,
    dim: Annotated[int | None, typer.Option(help="Without a model: numbers in a vector.")] = None,
    score: Annotated[
        str | None, typer.Option(help="Without a model: see `pcme list scores`; mean if not given.")
    ] = None,
    spread: Annotated[
        Literal["none", "isotropic", "diagonal"] | None,
        typer.Option(help="Without a model: how many σ an item has; none (points) if not given."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", help="Metadata: name=type, such as year=int64; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an empty index for a model's embeddings, or for vectors of your own."""
    from pcme.index import SearchIndex

    types = _types(columns or [])
    index = SearchIndex.create(where, model, dim=dim, score=score, spread=spread, columns=types)
    _show(index.describe(), as_json=as_json)


@app.command(
    epilog="[bold]Examples:[/bold] pcme index add birds photos/ --metadata photos.csv · "
    "pcme index add birds aviary --split test · pcme index add birds captions.txt"
)
def add(
    where: Where,
    items: Annotated[
        list[str],
        typer.Argument(
            help="Folders of images, images, .txt files of captions, datasets by name or folder, "
            ".npy or .parquet files of vectors, folders of clip-retrieval."
        ),
    ],
    *,
    metadata: Annotated[
        Path | None, typer.Option(help="A .csv, .jsonl or .parquet with a column id.")
    ] = None,
    kind: Kinds = "image",
    split: Splits = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Encode and write items anew that are there already.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first item that cannot be used.")
    ] = False,
    model: Model = None,
    as_json: Json = False,
) -> None:
    """Add items; those that are in the index already are skipped.

    What has been added is safe at once: after an interruption, run the same command again.
    """
    from pcme.data import Problems
    from pcme.index import SearchIndex
    from pcme.index.resolve import kinds_of, parse_items, read_metadata, with_metadata

    index, problems = SearchIndex.open(where, model), Problems(strict=strict)
    found = [
        source
        for given in items
        for source in parse_items(given, kinds_of(kind), split or (), problems)
    ]
    if metadata is not None:
        found = with_metadata(found, read_metadata(metadata))
    on_conflict: OnConflict = "replace" if replace else "skip"
    with progress_bars() as progress:
        done = index.add(found, on_conflict=on_conflict, problems=problems, progress=progress)
    if as_json:
        counts = {"added": done.added, "replaced": done.replaced, "present": done.present}
        print_json({**counts, "rows": len(index), "problems": problems.record()})
        return
    typer.echo(
        f"added {done.added:,}, replaced {done.replaced:,}, there already {done.present:,}; "
        f"{where} holds {len(index):,}"
    )
    if problems:
        typer.echo(problems.summary(), err=True)


@app.command(
    epilog="[bold]Examples:[/bold] pcme index delete birds photos/a.jpg · "
    "pcme index delete birds --where 'year < 1990'"
)
def delete(
    where: Where,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of items.")] = None,
    *,
    condition: Annotated[
        str | None, typer.Option("--where", help="A filter, as in `pcme search`.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Delete items by id, or all that a filter matches."""
    from pcme.index import SearchIndex

    index = SearchIndex.open(where)
    count = index.delete(ids or None, where=condition)
    if as_json:
        print_json({"deleted": count, "rows": len(index)})
    else:
        typer.echo(f"deleted {count:,}; {where} holds {len(index):,}")


@app.command(epilog="[bold]Example:[/bold] pcme index describe birds --json")
def describe(where: Where, *, as_json: Json = False) -> None:
    """Say what an index holds, which model it belongs to, and how it is searched."""
    from pcme.index import SearchIndex

    _show(SearchIndex.open(where).describe(), as_json=as_json)


@app.command(epilog="[bold]Example:[/bold] pcme index verify birds")
def verify(where: Where, *, as_json: Json = False) -> None:
    """Read every row and compare its id and embedding with what was written.

    Exit status 2 when anything is wrong. Metadata have no checksum: the engine reads them, or not.
    """
    from pcme.index import SearchIndex

    with progress_bars() as progress:
        found = SearchIndex.open(where).verify(progress)
    if as_json:
        print_json(
            {"ok": found.ok, "rows": found.rows, "faults": [*found.faults, *_unnamed(found)]}
        )
    elif found.ok:
        typer.echo(f"{where}: {found.rows:,} rows, ids and embeddings all as they were written")
    for fault in () if as_json else (*found.faults, *_unnamed(found)):
        typer.echo(f"pcme: {fault}", err=True)
    if not found.ok:
        raise typer.Exit(2)


@app.command(epilog="[bold]Example:[/bold] pcme index compact birds")
def compact(where: Where, *, as_json: Json = False) -> None:
    """Join what many small writes left, free the space of what was deleted, update the indexes."""
    from pcme.index import SearchIndex

    index = SearchIndex.open(where)
    before = index.describe()
    index.compact()
    after = index.describe()
    if as_json:
        print_json({"before": before.record(), "after": after.record()})
        return
    sizes = [_size(one.bytes) for one in (before, after)]
    typer.echo(f"{before.parts:,} parts → {after.parts:,}, {sizes[0]} → {sizes[1]}")


@app.command(
    epilog="[bold]Example:[/bold] pcme index tune birds --queries queries.txt --recall 0.99"
)
def tune(
    where: Where,
    *,
    queries: Annotated[
        Path | None,
        typer.Option(help="A text file of queries, one a line; else items stand in for them."),
    ] = None,
    recall: Annotated[float, typer.Option(help="The recall@10 to reach.")] = 0.99,
    model: Model = None,
    as_json: Json = False,
) -> None:
    """Build the approximate index of a large index, and find what it must do to be this good.

    Recall is measured against a search through everything, and kept with the index.
    """
    from dataclasses import asdict

    from pcme.index import SearchIndex
    from pcme.index.resolve import read_queries

    texts = None if queries is None else read_queries(queries)
    with progress_bars() as progress:
        found = SearchIndex.open(where, model).tune(texts, target=recall, progress=progress)
    if as_json:
        print_json({**asdict(found), "reached": found.reached})
    else:
        _print_tuning(found)


def _unnamed(found: Verified) -> list[str]:
    return [f"and {found.unnamed:,} more"] if found.unnamed else []


def _types(columns: list[str]) -> dict[str, str]:
    """{name: type} of columns that are given as name=type."""
    from pcme.errors import ConfigError

    found: dict[str, str] = {}
    for text in columns:
        name, equals, kind = text.partition("=")
        if not equals:
            raise ConfigError(f"--column is name=type - got {text}")
        if name in found:
            raise ConfigError(
                f'--column "{name}" is given twice, {found[name]} and {kind} - keep one'
            )
        found[name] = kind
    return found


def _show(found: Description, *, as_json: bool) -> None:
    if as_json:
        print_json(found.record())
        return
    counts = ", ".join(f"{count:,} {kind}s" for kind, count in found.kinds.items() if count)
    rows = {
        "items": counts or "none yet",
        "model": found.model or "none: vectors of your own",
        "embeddings": f"{found.dim:,} dimensions, σ {found.spread}, ranked by {found.score}",
        "columns": ", ".join(f"{name} ({kind})" for name, kind in found.columns.items()) or "none",
        "on disk": f"{_size(found.bytes)} in {found.parts:,} parts, version {found.version:,}",
        "search": _searched(found),
    }
    print_table(("index", found.path), list(rows.items()))


def _searched(found: Description) -> str:
    from pcme.index.finder import SMALL

    if found.effort is None:
        return "exact"
    if not found.worthwhile:
        return "exact: what tuning found is too inexact, or no faster"
    effort = found.effort
    return (
        f"approximate beyond {SMALL:,} items: {effort['probes']:.0f} partitions, "
        f"{effort['shortlist']:.0f} candidates, recall@10 {effort['recall']:.3f}; "
        f"{found.approximate:,} rows indexed"
    )


def _print_tuning(found: Tuning) -> None:
    rows = [
        (
            f"{trial.effort.probes:,}",
            f"{trial.effort.shortlist:,}",
            f"{trial.recall:.4f}",
            f"{trial.milliseconds:.1f} ms",
            "chosen" if trial == found.chosen else "",
        )
        for trial in found.trials
    ]
    print_table(("partitions", "candidates", "recall@10", "a query", ""), rows)
    typer.echo(
        f"everything: {found.exact_milliseconds:.1f} ms a query, {found.rows:,} items, "
        f"{found.queries:,} queries"
    )
    if not found.reached:
        typer.echo(f"no effort reaches {found.target:g}: searches stay exact", err=True)
    elif not found.worthwhile:
        typer.echo("none of them is faster than everything: searches stay exact", err=True)


def _size(size: int | None) -> str:
    return "an object store" if size is None else f"{size / 2**20:,.1f} MiB"
