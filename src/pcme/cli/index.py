"""pcme index: create, add, delete, verify, describe, compact, tune."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pcme.cli.device import on_device
from pcme.cli.output import Json, print_json, print_outcome, print_table, progress_bars
from pcme.errors import ConfigError

if TYPE_CHECKING:
    from pcme.index import SearchIndex
    from pcme.index.health import Description
    from pcme.index.tuning import Tuning


app = typer.Typer(
    no_args_is_help=True,
    epilog="[bold]Example:[/bold] pcme index create birds --model runs/aviary · "
    "pcme index add birds photos/ · pcme search birds 'a small red bird'",
)

IndexPath = Annotated[str, typer.Argument(metavar="INDEX", help="The index's folder or URI.")]
ModelPath = Annotated[Path | None, typer.Option("--model", help="The model's folder, if it has moved.")]
Kinds = Annotated[Literal["image", "caption", "both"], typer.Option(help="Which items of a dataset.")]
Splits = Annotated[
    list[str] | None, typer.Option("--split", help="A split of a dataset (default: all). May be repeated.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first item that cannot be used.")]


@app.command(epilog="[bold]Example:[/bold] pcme index create birds --model runs/aviary")
def create(
    where: IndexPath,
    *,
    model: Annotated[Path | None, typer.Option(help="The model's folder.")] = None,
    dim: Annotated[int | None, typer.Option(help="Without a model: dimension of vectors.")] = None,
    score: Annotated[
        str | None, typer.Option(help="Without a model: of `pcme list scores`, as overlap:scale=5 (default: mean).")
    ] = None,
    spread: Annotated[
        Literal["none", "isotropic", "diagonal"] | None,
        typer.Option(help="Without a model: no σ (points, the default), one per item, or one per dimension."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="Metadata: name=type, as in year=int64. May be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create an empty index for a model's embeddings, or for vectors of your own."""
    from pcme.index import SearchIndex

    types = _types(columns or [])
    index = SearchIndex.create(where, model, dim=dim, score=score, spread=spread, columns=types)
    _show(index.describe(), as_json=as_json)


@app.command(
    epilog="[bold]Examples:[/bold] pcme index add birds photos/ --metadata photos.csv · "
    "pcme index add birds aviary --split test · pcme index add birds captions.txt"
)
@on_device
def add(
    where: IndexPath,
    items: Annotated[
        list[str],
        typer.Argument(
            help="Folders of images, images, .txt files of captions, datasets by name or folder, "
            ".npy or .parquet files of vectors, folders of clip-retrieval."
        ),
    ],
    *,
    metadata: Annotated[Path | None, typer.Option(help="A .csv, .jsonl or .parquet file with a column id.")] = None,
    kind: Kinds = "image",
    split: Splits = None,
    replace: Annotated[bool, typer.Option("--replace", help="Re-encode and overwrite existing items.")] = False,
    strict: Strict = False,
    model: ModelPath = None,
    as_json: Json = False,
) -> None:
    """Add items; those already in the index are skipped.

    Added items are stored at once: after an interruption, run the same command again.
    """
    from pcme.data import Problems
    from pcme.index.resolve import parse_items, read_metadata, with_metadata

    index, problems = _open(where, model), Problems(strict=strict)
    sources = parse_items(items, kind, split or (), problems)
    if metadata is not None:
        sources = with_metadata(sources, read_metadata(metadata))
    with progress_bars() as progress:
        done = index.add(sources, on_conflict="replace" if replace else "skip", problems=problems, progress=progress)
    counts = f"added {done.added:,}, replaced {done.replaced:,}, skipped {done.present:,} (already present)"
    record = {"added": done.added, "replaced": done.replaced, "present": done.present, "rows": len(index)}
    print_outcome(record, f"{counts}; {len(index):,} items in {where}", problems, as_json=as_json)


@app.command(
    epilog="[bold]Examples:[/bold] pcme index delete birds photos/a.jpg · pcme index delete birds --where 'year < 1990'"
)
def delete(
    where: IndexPath,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of items.")] = None,
    *,
    condition: Annotated[str | None, typer.Option("--where", help="A filter, as in `pcme search`.")] = None,
    as_json: Json = False,
) -> None:
    """Delete items by id, or all that match a filter."""
    index = _open(where)
    count = index.delete(ids or None, where=condition)
    if as_json:
        print_json({"deleted": count, "rows": len(index)})
    else:
        typer.echo(f"deleted {count:,}; {len(index):,} items in {where}")


@app.command(epilog="[bold]Example:[/bold] pcme index describe birds --json")
def describe(where: IndexPath, *, as_json: Json = False) -> None:
    """Show what an index holds, its model, and how it is searched."""
    _show(_open(where).describe(), as_json=as_json)


@app.command(epilog="[bold]Example:[/bold] pcme index verify birds")
def verify(where: IndexPath, *, as_json: Json = False) -> None:
    """Read every row and check its id, embedding and ANN vector.

    Exit status 2 means that something is wrong. Metadata have no checksum.
    """
    with progress_bars() as progress:
        outcome = _open(where).verify(progress)
    faults = [*outcome.faults, *([f"and {outcome.unnamed:,} more"] if outcome.unnamed else [])]
    if as_json:
        print_json({"ok": outcome.ok, "rows": outcome.rows, "faults": faults})
    elif outcome.ok:
        typer.echo(f"{where}: {outcome.rows:,} rows, all ids and embeddings intact")
    else:
        typer.echo("\n".join(f"pcme: {fault}" for fault in faults), err=True)
    if not outcome.ok:
        raise typer.Exit(2)


@app.command(epilog="[bold]Example:[/bold] pcme index compact birds")
def compact(where: IndexPath, *, as_json: Json = False) -> None:
    """Merge fragments, reclaim deleted space, rebuild the ANN index."""
    index = _open(where)
    before = index.describe()
    index.compact()
    after = index.describe()
    if as_json:
        print_json({"before": before.record(), "after": after.record()})
        return
    typer.echo(f"{before.parts:,} fragments → {after.parts:,}, {_size(before.bytes)} → {_size(after.bytes)}")


@app.command(epilog="[bold]Example:[/bold] pcme index tune birds --queries queries.txt --recall 0.99")
def tune(
    where: IndexPath,
    *,
    queries: Annotated[
        Path | None, typer.Option(help="A text file with one query per line (default: items stand in).")
    ] = None,
    recall: Annotated[float, typer.Option(help="Target recall@10.")] = 0.99,
    model: ModelPath = None,
    as_json: Json = False,
) -> None:
    """Build the ANN index and tune it to a target recall.

    Recall is measured against exact search and stored with the index.
    """
    from pcme.index.resolve import read_queries

    texts = None if queries is None else read_queries(queries)
    with progress_bars() as progress:
        tuning = _open(where, model).tune(texts, target=recall, progress=progress)
    if as_json:
        print_json({**asdict(tuning), "reached": tuning.reached})
    else:
        _print_tuning(tuning)


def _open(where: str, model: Path | None = None) -> SearchIndex:
    from pcme.index import SearchIndex

    return SearchIndex.open(where, model)


def _types(columns: list[str]) -> dict[str, str]:
    """{name: type} of columns that are given as name=type."""
    types: dict[str, str] = {}
    for text in columns:
        name, equals, kind = text.partition("=")
        if not equals:
            raise ConfigError(f"--column: must be name=type, got {text}.")
        if name in types:
            raise ConfigError(f'--column: "{name}" is given twice, got {types[name]} and {kind}. Keep one.')
        types[name] = kind
    return types


def _show(index: Description, *, as_json: bool) -> None:
    if as_json:
        print_json(index.record())
        return
    counts = ", ".join(f"{count:,} {kind}s" for kind, count in index.kinds.items() if count)
    rows = {
        "items": counts or "none yet",
        "model": index.model or "none: vectors of your own",
        "embeddings": f"{index.dim:,} dimensions, σ {index.spread}, ranked by {index.score}",
        "columns": ", ".join(f"{name} ({kind})" for name, kind in index.columns.items()) or "none",
        "on disk": f"{_size(index.bytes)} in {index.parts:,} fragments, version {index.version:,}",
        "search": _search_mode(index),
    }
    print_table(("index", index.path), list(rows.items()))


def _search_mode(index: Description) -> str:
    from pcme.index.finder import SMALL

    effort = index.effort
    if effort is None:
        return "exact"
    if not index.worthwhile:
        return "exact: the tuned ANN index is not accurate enough, or no faster"
    return (
        f"approximate beyond {SMALL:,} items: {effort['probes']:.0f} partitions, "
        f"{effort['shortlist']:.0f} candidates, recall@10 {effort['recall']:.3f}; "
        f"{index.approximate:,} rows in the ANN index"
    )


def _print_tuning(tuning: Tuning) -> None:
    rows = []
    for trial in tuning.trials:
        probes, shortlist = f"{trial.effort.probes:,}", f"{trial.effort.shortlist:,}"
        chosen = "chosen" if trial == tuning.chosen else ""
        rows.append((probes, shortlist, f"{trial.recall:.4f}", f"{trial.milliseconds:.1f} ms", chosen))
    print_table(("partitions", "candidates", "recall@10", "per query", ""), rows)
    typer.echo(
        f"exact search: {tuning.exact_milliseconds:.1f} ms per query, {tuning.rows:,} items, {tuning.queries:,} queries"
    )
    if not tuning.reached:
        typer.echo(f"no effort reaches recall {tuning.target:g}: searches stay exact", err=True)
    elif not tuning.worthwhile:
        typer.echo("no effort is faster than exact search: searches stay exact", err=True)


def _size(size: int | None) -> str:
    return "an object store" if size is None else f"{size / 2**20:,.1f} MiB"
