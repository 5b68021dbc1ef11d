"""Export: the embeddings of items as a Parquet file, which `pcme embed` writes."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from pcme.core import files
from pcme.core.progress import Progress, silent
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.encoder import Encoder
from pcme.index.items import Captions, Images, Source, chunks, require_distinct
from pcme.index.rows import checked_ids, conformed
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
            for source, indices in chunks(sources):
                rows = source.rows(indices, encoder, problems)
                if rows is not None:
                    table = rows.table()
                    writer = writer or pq.ParquetWriter(draft, table.schema.with_metadata(note))
                    writer.write_table(conformed(table, writer.schema))
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
            name = next(iter(source.ids), "")
            raise ConfigError(f'"{name}": is a vector already. Give images and captions; leave files of vectors out.')
    require_distinct(sources)
    checked_ids([name for source in sources for name in source.ids])  # nor the same item twice
    encoder.settings()  # refuses a model with several points per item: a row has one
