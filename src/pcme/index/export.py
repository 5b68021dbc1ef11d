"""Export: the embeddings of items as a Parquet file, which `pcme embed` writes."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pcme.core import files
from pcme.core.progress import Progress, silent
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.encoder import Encoder
from pcme.index.items import Captions, Images, Source, chunks, require_distinct
from pcme.index.rows import Rows, checked_ids
from pcme.index.vector_files import MODEL
from pcme.model.digest import digest


def embed_to(
    path: Path, encoder: Encoder, sources: Sequence[Source], problems: Problems, progress: Progress = silent
) -> int:
    """Embed all items and write one row per item, atomically; return the number of rows.

    Columns: id, kind, path, text, mean, log_sigma (natural log of the standard deviation), and the metadata of the
    first items. The schema notes the model, so that an index of another model refuses the file.
    """
    _require_embeddable(path, encoder, sources)
    note = {MODEL: digest(encoder.model)}
    total, done, written = sum(len(source.ids) for source in sources), 0, 0
    try:
        with files.replacing(path) as draft:
            writer: pq.ParquetWriter | None = None
            for source, indices in ((one, some) for one in sources for some in chunks(one)):
                rows = source.rows(indices, encoder, problems)
                if rows is not None:
                    table = _table(rows)
                    writer = writer or pq.ParquetWriter(draft, table.schema.with_metadata(note))
                    writer.write_table(_conform(table, writer.schema))
                    written += len(rows)
                done += len(indices)
                progress("items", done, total)
            if writer is None:
                raise DataError(f"none of the {total:,} items can be used: {problems.summary()}")
            writer.close()
    except OSError as error:
        raise FormatError(f"{path}: cannot be written, {error.strerror or error}.") from error
    return written


def _require_embeddable(path: Path, encoder: Encoder, sources: Sequence[Source]) -> None:
    """Refuse items that cannot be embedded, or not be written there."""
    if path.suffix != ".parquet":
        raise ConfigError(f'{path}: must be a .parquet file, got "{path.suffix}".')
    for source in sources:
        if not isinstance(source, Images | Captions):
            raise ConfigError(
                f'"{next(iter(source.ids), "")}": is a vector already. Only images and captions '
                "can be embedded; leave files of vectors out."
            )
    require_distinct(sources)
    checked_ids([name for source in sources for name in source.ids])  # nor the same item twice
    encoder.settings()  # refuses a model with several points per item: a row has one


def _table(rows: Rows) -> pa.Table:
    table = pa.table(rows.columns())
    for name in [] if rows.metadata is None else rows.metadata.column_names:
        table = table.append_column(name, rows.metadata[name])  # type: ignore[index]
    return table


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of the first: others are left out, missing ones are null."""
    columns = [
        _cast(table[field.name], field) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return values.cast(field.type)
    except pa.ArrowException as error:
        raise DataError(
            f'column "{field.name}": is {field.type} for the first items, got {values.type} for '
            "others. Embed them to one file each."
        ) from error
