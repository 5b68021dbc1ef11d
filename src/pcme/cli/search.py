"""pcme search: the items of an index that match a text or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pcme.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from pcme.index import Hit, Hits

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command(
        epilog="[bold]Examples:[/bold] pcme search birds 'a small red bird' --k 5 · "
        "pcme search birds photo.jpg --where \"year > 2015 AND place = 'Oslo'\" · "
        "pcme search birds 'a red bird' --and 'near water' --not 'a long tail'"
    )(search)


def search(
    where: Annotated[str, typer.Argument(metavar="INDEX", help="The index's folder, or URI.")],
    query: Annotated[
        str, typer.Argument(help="A text, an image file, or a .npy file of a vector.")
    ],
    *,
    k: Annotated[int, typer.Option("--k", "-k", help="How many hits.")] = 10,
    condition: Annotated[
        str | None, typer.Option("--where", help="A filter over the columns, in SQL.")
    ] = None,
    kind: Annotated[
        Literal["image", "caption"] | None, typer.Option(help="Only items of this kind.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Only hits whose match probability is at least this.")
    ] = None,
    min_coverage: Annotated[
        float | None,
        typer.Option(
            help="Say that nothing matches only for the least sure queries: this share of those "
            "that have a match, at calibration, is answered."
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Search everything, however large the index is.")
    ] = False,
    also: Annotated[
        list[str] | None, typer.Option("--and", help="This must match too; may be repeated.")
    ] = None,
    instead: Annotated[
        list[str] | None, typer.Option("--or", help="This may match instead; may be repeated.")
    ] = None,
    unwanted: Annotated[
        list[str] | None, typer.Option("--not", help="This must not match; may be repeated.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The model's folder, if it is not where it was.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Search an index: by a text, a picture, or several of them combined.

    Filters: column names, numbers, 'texts', = < > AND OR NOT IN LIKE, IS NULL; array_has(tags, 'x')
    for columns of lists.
    """
    from pcme.index import SearchIndex
    from pcme.index.resolve import parse_query

    hits = SearchIndex.open(where, model).search(
        parse_query(query),
        k,
        all_of=[parse_query(one) for one in also or ()],
        any_of=[parse_query(one) for one in instead or ()],
        but_not=[parse_query(one) for one in unwanted or ()],
        where=condition,
        kind=kind,
        exact=exact or None,
        min_coverage=min_coverage,
    )
    kept = hits if threshold is None else hits.above(threshold)
    if as_json:
        print_json(kept.record())
        return
    _print(kept)
    if threshold is not None and not kept.hits:
        typer.echo(f"no hit has a match probability of {threshold:g} or more", err=True)


def _print(hits: Hits) -> None:
    typer.echo(_summary(hits))
    if hits.hits:
        print_table(
            ("rank", "match", "σ", "id, path or text, metadata"), [_row(hit) for hit in hits]
        )
    if hits.query.note:
        typer.echo(f"note: {hits.query.note}: what was found is a guess", err=True)
    if not hits.calibrated and hits.query.answerable is not None:
        typer.echo("note: not calibrated, probabilities are the model's own", err=True)


def _summary(hits: Hits) -> str:
    """One line: how many match, and how sure that is."""
    query = hits.query
    if query.answerable is None:
        return f"the nearest of {hits.searched:,}"
    if query.answerable:
        text = f"about {query.expected_matches or 0:,.0f} of {hits.searched:,} match"
    else:
        text = f"nothing among {hits.searched:,} seems to match"
    if query.percentile is not None:
        text += f"; this query is wider than {query.percentile:.0f} % of others"
    return text


def _row(hit: Hit) -> tuple[str, ...]:
    """A line for each thing that is known; what is long has room in the last column."""
    known = ", ".join(f"{name} {_short(value)}" for name, value in hit.metadata.items())
    lines = [hit.id, hit.path or hit.text or "", known]
    return (
        str(hit.rank),
        "-" if hit.match_probability is None else f"{hit.match_probability:.3f}",
        "-" if hit.uncertainty is None else f"{hit.uncertainty:.3g}",
        "\n".join(line for line in lines if line),
    )


def _short(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
