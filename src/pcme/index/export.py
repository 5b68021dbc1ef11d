"""Embeddings as a Parquet file: what `pcme embed` writes, and any index or table tool reads."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pcme.core import files
from pcme.core.progress import Progress, silent
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.encoder import Encoder
from pcme.index.items import Captions, Pictures, Source, require_distinct
from pcme.index.rows import Rows, checked_ids, numbers, vectors_column
from pcme.index.vector_files import MODEL
from pcme.model.digest import digest

__all__ = ["embed_to"]


def embed_to(
    path: Path,
    encoder: Encoder,
    sources: Sequence[Source],
    problems: Problems,
    progress: Progress = silent,
) -> int:
    """Embed all items and write them, a row each, whole or not at all; says how many there are.

    Columns: id, kind, path, text, mean, log_sigma (natural log of the standard deviation), and the
    metadata of the first items. The schema notes the model, so that no index of another takes them.
    """
    _require_embeddable(path, encoder, sources)
    note = {MODEL: digest(encoder.model)}
    total, done, written = sum(len(source.ids) for source in sources), 0, 0
    try:
        with files.replacing(path) as draft:
            writer: pq.ParquetWriter | None = None
            for source in sources:
                for start in range(0, len(source.ids), source.chunk):
                    places = range(start, min(len(source.ids), start + source.chunk))
                    rows = source.rows(places, encoder, problems)
                    if rows is not None:
                        table = _table(rows)
                        writer = writer or pq.ParquetWriter(draft, table.schema.with_metadata(note))
                        writer.write_table(_like(table, writer.schema))
                        written += len(rows)
                    done += len(places)
                    progress("items", done, total)
            if writer is None:
                raise DataError(f"none of the {total:,} items can be used - {problems.summary()}")
            writer.close()
    except OSError as error:
        raise FormatError(f"{path} cannot be written - {error.strerror or error}") from error
    return written


def _require_embeddable(path: Path, encoder: Encoder, sources: Sequence[Source]) -> None:
    """An error that says why these items cannot be embedded, or not be written there."""
    if path.suffix != ".parquet":
        raise ConfigError(f"{path}: embeddings are written as .parquet")
    for source in sources:
        if not isinstance(source, Pictures | Captions):
            raise ConfigError(
                f'"{next(iter(source.ids), "")}" is a vector already - pictures and captions can '
                "be embedded - leave files of vectors out"
            )
    require_distinct(sources)
    checked_ids([one for source in sources for one in source.ids])  # nor the same item twice
    encoder.settings()  # refuses a model that makes several points of an item: a row has one


def _table(rows: Rows) -> pa.Table:
    mean, log_sigma = numbers(rows.embedding)
    found = {
        "id": pa.array(rows.ids, pa.string()),
        "kind": pa.array(rows.kinds, pa.string()),
        "path": pa.array(rows.paths or [None] * len(rows), pa.string()),
        "text": pa.array(rows.texts or [None] * len(rows), pa.string()),
        "mean": vectors_column(mean),
    }
    if log_sigma is not None:
        found["log_sigma"] = vectors_column(log_sigma)
    for name in rows.metadata.column_names if rows.metadata is not None else ():
        found[name] = rows.metadata[name]  # type: ignore[index]
    return pa.table(found)


def _like(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """With these columns: others are left out, missing ones are empty."""
    columns = [
        _cast(table[field.name], field)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return values.cast(field.type)
    except pa.ArrowException as error:
        raise DataError(
            f'"{field.name}" is {field.type} for the first items and {values.type} for others - '
            "embed them to a file each"
        ) from error
