"""pcme search: the items of an index that match a text or an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pcme.cli.index import IndexPath, ModelPath
from pcme.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from pcme.index import Hit, Hits


def search(
    where: IndexPath,
    query: Annotated[str, typer.Argument(help="A text, an image file, or a .npy file of one vector.")],
    *,
    k: Annotated[int, typer.Option("--k", "-k", help="Number of hits.")] = 10,
    condition: Annotated[str | None, typer.Option("--where", help="A filter over the columns, in SQL.")] = None,
    kind: Annotated[Literal["image", "caption"] | None, typer.Option(help="Only items of this kind.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Least match probability of a hit.")] = None,
    min_coverage: Annotated[
        float | None, typer.Option(help="Answer at least this share of the answerable queries.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Exact search, however large the index is.")] = False,
    also: Annotated[list[str] | None, typer.Option("--and", help="Must match too. May be repeated.")] = None,
    instead: Annotated[list[str] | None, typer.Option("--or", help="May match instead. May be repeated.")] = None,
    unwanted: Annotated[list[str] | None, typer.Option("--not", help="Must not match. May be repeated.")] = None,
    model: ModelPath = None,
    as_json: Json = False,
) -> None:
    """Search an index by a text, an image, or several of them combined.

    Filters: column names, numbers, 'texts', = < > AND OR NOT IN LIKE, IS NULL; array_has(tags, 'x')
    for columns of lists.
    """
    from pcme.index import SearchIndex
    from pcme.index.resolve import parse_query

    hits = SearchIndex.open(where, model).search(
        parse_query(query),
        k,
        all_of=list(map(parse_query, also or ())),
        any_of=list(map(parse_query, instead or ())),
        but_not=list(map(parse_query, unwanted or ())),
        where=condition,
        kind=kind,
        exact=exact or None,
        min_coverage=min_coverage,
    )
    hits = hits if threshold is None else hits.above(threshold)
    if as_json:
        print_json(hits.record())
        return
    _print(hits)
    if threshold is not None and not hits.hits:
        typer.echo(f"no hit has a match probability of {threshold:g} or more", err=True)


def _print(hits: Hits) -> None:
    typer.echo(_summary(hits))
    if hits.hits:
        print_table(("rank", "match", "σ", "id, path or text, metadata"), [_row(hit) for hit in hits])
    if hits.query.note:
        typer.echo(f"note: {hits.query.note}; the hits are a guess", err=True)
    if not hits.calibrated and hits.query.answerable is not None:
        typer.echo("note: not calibrated, probabilities are the model's own", err=True)


def _summary(hits: Hits) -> str:
    """One line: how many items match, and how certain that is."""
    query, searched = hits.query, f"{hits.searched:,} items"
    if query.answerable is None:
        return f"the nearest of {searched}"
    if query.answerable:
        text = f"about {query.expected_matches or 0:,.0f} of {searched} match"
    else:
        text = f"nothing among {searched} seems to match"
    if query.percentile is not None:
        text += f"; the query is less certain than {query.percentile:.0f} % of others"
    return text if hits.exact else f"{text}; approximate search"


def _row(hit: Hit) -> tuple[str, ...]:
    """Id, path or text, and metadata on lines of their own, in the last column."""
    columns = {key: " ".join(map(str, v)) if isinstance(v, list) else v for key, v in hit.metadata.items()}
    lines = [hit.id, hit.path or hit.text or "", ", ".join(f"{name} {value}" for name, value in columns.items())]
    return (
        str(hit.rank),
        "-" if hit.match_probability is None else f"{hit.match_probability:.3f}",
        "-" if hit.uncertainty is None else f"{hit.uncertainty:.3g}",
        "\n".join(line for line in lines if line),
    )
