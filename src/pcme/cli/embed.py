"""pcme embed: a model's embeddings of many items, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pcme.cli.index import Kinds, Splits, Strict
from pcme.cli.output import Json, print_outcome, progress_bars


def embed(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model's folder.")],
    items: Annotated[list[str], typer.Argument(help="Folders of images, images, .txt files of captions, datasets.")],
    *,
    out: Annotated[Path, typer.Option(help="The .parquet file to write.")],
    kind: Kinds = "image",
    split: Splits = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Write the embeddings of items: id, kind, path, text, mean, log_sigma, metadata.

    `pcme index add` and any Parquet tool can read the file.
    """
    from pcme.data import Problems
    from pcme.index.encoder import Encoder
    from pcme.index.export import embed_to
    from pcme.index.resolve import parse_items

    problems, encoder = Problems(strict=strict), Encoder(model)
    sources = parse_items(items, kind, split or (), problems)
    with progress_bars() as progress:
        count = embed_to(out, encoder, sources, problems, progress)
    text = f"wrote {out} ({count:,} embeddings of {encoder.model.recipe.dim:,} dimensions)"
    print_outcome({"out": str(out), "rows": count}, text, problems, as_json=as_json)
