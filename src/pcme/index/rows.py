"""The columns of a row, and rows to and from embeddings.

id          what an item is called; never twice
kind        "image" or "caption"
path, text  the file, or the words, where there are any
mean        μ, single precision
log_sigma   log σ, one number a dimension or one in all; not there for points
vector      what the engine searches by (`pcme.index.lifts`)
seq         grows with every write: what is new since a reader last looked
check       CRC-32 of id, kind, μ and log σ: damage is noticed
...         and whatever else is known of an item, in columns of its own
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float32, Int64

from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError, DataError
from pcme.index.settings import Settings

__all__ = ["OWN", "Kind", "Rows", "checked_ids", "checked_names", "checksums", "embedding_of"]
__all__ += ["matrix", "metadata_of", "metadata_table", "numbers", "schema", "vectors_column"]
__all__ += ["with_columns", "without_row_numbers"]

Kind = Literal["image", "caption"]
OWN = ("id", "kind", "path", "text", "mean", "log_sigma", "vector", "seq", "check")
"""Names that no column of a user's can have."""
INTERNAL = ("mean", "log_sigma", "vector", "seq", "check")
LONGEST_ID = 4096
ROW_NUMBER = re.compile(r"\s*|__index_level_\d+__")
"""What pandas calls the row numbers that it writes: nothing in CSV, this in Parquet."""


def schema(settings: Settings, width: int | None, columns: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of an index; `width` is that of the engine's vector, None without one."""
    fields = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("text", pa.string()),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("check", pa.int64(), nullable=False),
        pa.field("mean", pa.list_(pa.float32(), settings.dim), nullable=False),
    ]
    if settings.spread != "none":
        size = settings.dim if settings.spread == "diagonal" else 1
        fields.append(pa.field("log_sigma", pa.list_(pa.float32(), size), nullable=False))
    if width is not None:
        fields.append(pa.field("vector", pa.list_(pa.float32(), width), nullable=False))
    names = checked_names(columns)
    fields += [pa.field(name, _type(name, columns[name])) for name in names]
    return pa.schema(fields, metadata={"pcme": settings.to_json()})


@dataclass(frozen=True, eq=False)
class Rows:
    """Items on their way into an index."""

    ids: Sequence[str]
    kinds: Sequence[Kind]
    embedding: Embedding
    paths: Sequence[str | None] | None = None
    texts: Sequence[str | None] | None = None
    metadata: pa.Table | None = None

    def __post_init__(self) -> None:
        for name in ("kinds", "embedding", "paths", "texts", "metadata"):
            if (value := getattr(self, name)) is not None and len(value) != len(self.ids):
                raise DataError(f"{len(self.ids):,} ids do not go with {len(value):,} {name}")
        checked_ids(self.ids)
        if self.metadata is not None:
            checked_names(self.metadata.column_names)

    def __len__(self) -> int:
        return len(self.ids)

    def picked(self, places: Sequence[int]) -> "Rows":
        """Some of them."""
        return Rows(
            [self.ids[n] for n in places],
            [self.kinds[n] for n in places],
            self.embedding[list(places)],
            None if self.paths is None else [self.paths[n] for n in places],
            None if self.texts is None else [self.texts[n] for n in places],
            None if self.metadata is None else self.metadata.take(list(places)),
        )

    def table(
        self,
        target: pa.Schema,
        vectors: Float32[np.ndarray, "n l"] | None,
        first: int,
    ) -> pa.Table:
        """As rows of a table of this schema, numbered from `first` on."""
        mean, log_sigma = numbers(self.embedding)
        own: dict[str, object] = {
            "id": pa.array(self.ids, pa.string()),
            "kind": pa.array(self.kinds, pa.string()),
            "path": pa.array(self.paths or [None] * len(self), pa.string()),
            "text": pa.array(self.texts or [None] * len(self), pa.string()),
            "seq": pa.array(np.arange(first, first + len(self))),
            "check": pa.array(checksums(self.ids, self.kinds, mean, log_sigma)),
            "mean": vectors_column(mean),
        }
        if log_sigma is not None:
            own["log_sigma"] = vectors_column(log_sigma)
        if vectors is not None:
            own["vector"] = vectors_column(vectors)
        columns = [
            own[field.name] if field.name in own else _filled(self.metadata, field, len(self))
            for field in target
        ]
        return pa.Table.from_arrays(columns, schema=target)


def numbers(
    embedding: Embedding,
) -> tuple[Float32[np.ndarray, "n d"], Float32[np.ndarray, "n s"] | None]:
    """(μ, log σ) as an index has fitted them; points have no log σ."""
    if isinstance(embedding, Points):
        return embedding.x[:, 0].contiguous().numpy(), None
    return embedding.mean.contiguous().numpy(), embedding.log_sigma.contiguous().numpy()


def embedding_of(table: pa.Table) -> Embedding:
    """The embeddings of rows."""
    mean = torch.from_numpy(matrix(table["mean"]))
    if "log_sigma" not in table.column_names:
        return Points(mean[:, None])
    return Gaussian(mean, torch.from_numpy(matrix(table["log_sigma"])))


def checksums(
    ids: Sequence[str],
    kinds: Sequence[str],
    mean: Float32[np.ndarray, "n d"],
    log_sigma: Float32[np.ndarray, "n s"] | None,
) -> Int64[np.ndarray, " n"]:
    """CRC-32 of each row's id, kind and numbers."""
    found = np.empty(len(ids), np.int64)
    for n, (one, kind) in enumerate(zip(ids, kinds, strict=True)):
        seen = zlib.crc32(mean[n], zlib.crc32(f"{kind}:{one}".encode()))
        found[n] = seen if log_sigma is None else zlib.crc32(log_sigma[n], seen)
    return found


def metadata_of(row: Mapping[str, object]) -> dict[str, object]:
    """What else is known of an item; a column without a value is left out."""
    return {name: value for name, value in row.items() if name not in OWN and value is not None}


def metadata_table(
    metadata: pa.Table | Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]] | None,
    count: int,
) -> pa.Table | None:
    """What is said of items as columns with types: a table, {column: values}, or a list of rows.

    None where nothing is said: a table without columns would have no length.
    """
    if metadata is None:
        return None
    try:
        if isinstance(metadata, pa.Table):
            found = metadata
        elif isinstance(metadata, Mapping):
            found = pa.table({name: pa.array(values) for name, values in metadata.items()})
        else:
            found = _from_rows(metadata)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"the metadata have no types that fit all values - {error}") from error
    if not found.num_columns:
        return None
    if len(found) != count:
        raise DataError(f"metadata are of {len(found):,} items, there are {count:,}")
    checked_names(found.column_names)
    return found


def checked_ids(ids: Sequence[str]) -> Sequence[str]:
    """The ids, each a text and given once; an error that says which is not."""
    if wrong := [one for one in ids if not isinstance(one, str) or not one.strip()]:
        raise DataError(f"an id must be text that is not empty - got {wrong[0]!r:.60}")
    if long := [one for one in ids if len(one) > LONGEST_ID]:
        raise DataError(f"an id has at most {LONGEST_ID:,} characters - got {len(long[0]):,}")
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise DataError(f'id "{twice}" is given twice - every item needs one of its own')
    return ids


def checked_names(names: Iterable[str]) -> list[str]:
    """The names of columns of metadata; an error for one that an index could not be read with."""
    given = list(names)
    for name in given:
        if name in OWN or name.startswith("_") or not name.strip() or not _plain(name):
            raise ConfigError(
                f'"{name:.60}" cannot be a column of metadata - these names are taken: '
                f"{', '.join(OWN)}; others do not begin with _, and have no dots, backticks or "
                "line breaks - rename it, or leave it out"
            )
    if len(set(given)) < len(given):
        twice = Counter(given).most_common(1)[0][0]
        raise ConfigError(f'column "{twice}" is there twice - rename one, or leave it out')
    return given


def with_columns(table: pa.Table | None, more: pa.Table | None) -> pa.Table | None:
    """The columns of both; where both have one, that of `more`."""
    if table is None or more is None:
        return table if more is None else more
    for name in table.column_names:
        if name not in more.column_names:
            more = more.append_column(name, table[name])
    return more


def without_row_numbers(table: pa.Table) -> pa.Table:
    """The table without the row numbers that pandas adds to what it writes."""
    names = table.column_names
    return table.select([n for n, name in enumerate(names) if not ROW_NUMBER.fullmatch(name)])


def _from_rows(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def _plain(name: str) -> bool:
    """Whether the engine can be asked for a column of this name."""
    return name.isprintable() and "." not in name and "`" not in name


def _type(name: str, kind: str) -> pa.DataType:
    try:
        return pa.type_for_alias(kind)
    except ValueError as error:
        raise ConfigError(
            f'column "{name}": no type "{kind}" - use Arrow\'s names, such as string, int64, '
            "double, bool, date32"
        ) from error


def _filled(metadata: pa.Table | None, field: pa.Field, count: int) -> pa.ChunkedArray | pa.Array:
    if metadata is None or field.name not in metadata.column_names:
        return pa.nulls(count, field.type)
    given = metadata[field.name]
    try:
        return given.cast(field.type)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f'column "{field.name}" holds {field.type}, and {given.type} was given that does not '
            f"fit - {error}"
        ) from error


def vectors_column(values: Float32[np.ndarray, "n d"]) -> pa.Array:
    """A matrix as a column of vectors."""
    flat = pa.array(np.ascontiguousarray(values, np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def matrix(column: pa.ChunkedArray) -> Float32[np.ndarray, "n d"]:
    """A column of vectors as a matrix of its own."""
    width = column.type.list_size
    parts = [
        chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, width) for chunk in column.chunks
    ]
    whole = np.concatenate(parts) if parts else np.empty((0, width), np.float32)
    return np.require(whole, np.float32, ["C", "W"])
