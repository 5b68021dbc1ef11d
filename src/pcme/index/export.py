"""Embeddings as a Parquet file: what `pcme embed` writes, and any index or table tool reads."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pcme import atomic
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.columns import Rows, numbers, vectors_column
from pcme.index.encoder import Encoder
from pcme.index.items import Source

__all__ = ["embed_to"]


def embed_to(
    path: Path,
    encoder: Encoder,
    sources: Sequence[Source],
    problems: Problems,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Embed all items and write them, a row each, whole or not at all; says how many there are.

    Columns: id, kind, path, text, mean, log_sigma (natural log of the standard deviation), and the
    metadata of the first items.
    """
    if path.suffix != ".parquet":
        raise ConfigError(f"{path}: embeddings are written as .parquet")
    total, done, written = sum(len(source.ids) for source in sources), 0, 0
    try:
        with atomic.replacing(path) as draft:
            writer: pq.ParquetWriter | None = None
            for source in sources:
                for start in range(0, len(source.ids), source.chunk):
                    places = range(start, min(len(source.ids), start + source.chunk))
                    rows = source.rows(places, encoder, problems)
                    if rows is not None:
                        table = _table(rows)
                        writer = writer or pq.ParquetWriter(draft, table.schema)
                        writer.write_table(_like(table, writer.schema))
                        written += len(rows)
                    done += len(places)
                    progress(done, total)
            if writer is None:
                raise DataError("nothing could be embedded - see the problems above")
            writer.close()
    except OSError as error:
        raise FormatError(f"{path} cannot be written - {error.strerror or error}") from error
    return written


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
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
