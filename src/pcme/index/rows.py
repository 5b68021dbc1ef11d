"""The columns of a row, and rows to and from embeddings.

id          the name of an item, unique
kind        "image" or "caption"
path, text  the file, or the words, where there are any
mean        μ, single precision
log_sigma   log σ, one number per dimension or one per item; absent for points
vector      the vector that the ANN index searches by
seq         write order: a reader takes what is newer than its newest
check       CRC-32 of id, kind, μ and log σ
...         metadata, one column each
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Float32, Int64

from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError, DataError
from pcme.index.settings import Settings

T = TypeVar("T")

Kind = Literal["image", "caption"]
Metadata: TypeAlias = pa.Table | Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]] | None
"""A table, {column: values}, or one mapping per item."""

INTERNAL = ("mean", "log_sigma", "vector", "seq", "check")
RESERVED = ("id", "kind", "path", "text", *INTERNAL)
"""Names that no column of metadata can have."""
LONGEST_ID = 4096


def schema(settings: Settings, width: int | None, columns: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of an index; `width` is that of the ANN vector, None without one."""
    fields = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("text", pa.string()),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("check", pa.int64(), nullable=False),
        pa.field("mean", pa.list_(pa.float32(), settings.dim), nullable=False),
    ]
    if settings.sigmas:
        fields.append(pa.field("log_sigma", pa.list_(pa.float32(), settings.sigmas), nullable=False))
    if width is not None:
        fields.append(pa.field("vector", pa.list_(pa.float32(), width), nullable=False))
    fields += [pa.field(name, _type(name, columns[name])) for name in checked_names(columns)]
    return pa.schema(fields, metadata={"pcme": settings.to_json()})


class Origin(NamedTuple):
    """What is known of an item before it is embedded; tells apart two items of one id.

    >>> photo, other, bare = Origin("image", "/a/1.jpg"), Origin("image", "/b/1.jpg"), Origin("image")
    >>> photo.contradicts(other), photo.agrees(photo), bare.contradicts(photo), bare.agrees(photo)
    (True, True, False, False)
    """

    kind: Kind
    path: str | None = None
    text: str | None = None

    def __str__(self) -> str:
        text = None if self.text is None else f'"{self.text:.60}"'
        return f"the {self.kind} {self.path or text or 'without path or text'}"

    def contradicts(self, other: "Origin") -> bool:
        """Whether these are certainly two items."""
        return self.kind != other.kind or any(a != b for a, b in self._compared(other))

    def agrees(self, other: "Origin") -> bool:
        """Whether these are certainly one item."""
        return bool(self._compared(other)) and not self.contradicts(other)

    def _compared(self, other: "Origin") -> list[tuple[str, str]]:
        """The facts known of both."""
        pairs = ((self.path, other.path), (self.text, other.text))
        return [(a, b) for a, b in pairs if a is not None and b is not None]


Texts = list[str | None] | None


def origins_of(kinds: Sequence[Kind], paths: Texts, texts: Texts) -> list[Origin]:
    """The origins of items."""
    nothing = [None] * len(kinds)
    return list(map(Origin, kinds, paths or nothing, texts or nothing))


@dataclass(frozen=True, eq=False)
class Rows:
    """Items to be written."""

    ids: Sequence[str]
    origins: Sequence[Origin]
    embedding: Embedding
    metadata: pa.Table | None = None

    def __post_init__(self) -> None:
        if self.metadata is not None:
            checked_names(self.metadata.column_names)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, indices: Sequence[int]) -> "Rows":
        """Some of the rows."""
        return Rows(
            [self.ids[n] for n in indices],
            [self.origins[n] for n in indices],
            self.embedding[torch.tensor(indices, dtype=torch.int64)],
            None if self.metadata is None else self.metadata.take(list(indices)),
        )

    def table(self) -> pa.Table:
        """The columns id, kind, path, text, mean and log_sigma, then the metadata."""
        mean, log_sigma = numbers(self.embedding)
        columns = {"id": pa.array(self.ids, pa.string())}
        for name in ("kind", "path", "text"):
            columns[name] = pa.array([getattr(origin, name) for origin in self.origins], pa.string())
        columns["mean"] = vectors_column(mean)
        if log_sigma is not None:
            columns["log_sigma"] = vectors_column(log_sigma)
        for name in () if self.metadata is None else self.metadata.column_names:
            columns[name] = self.metadata[name]  # type: ignore[index]
        return pa.table(columns)

    def checksums(self) -> Int64[np.ndarray, " n"]:
        """The column check."""
        return checksums(self.ids, [origin.kind for origin in self.origins], self.embedding)


def take(values: Sequence[T] | None, indices: Sequence[int]) -> list[T] | None:
    """Some of the values; None of None."""
    return None if values is None else [values[n] for n in indices]


def numbers(embedding: Embedding) -> tuple[Float32[np.ndarray, "n d"], Float32[np.ndarray, "n s"] | None]:
    """(μ, log σ) of embeddings that fit the index; points have no log σ."""
    if isinstance(embedding, Points):
        return embedding.x[:, 0].contiguous().numpy(), None
    return embedding.mean.contiguous().numpy(), embedding.log_sigma.contiguous().numpy()


def embedding_of(table: pa.Table) -> Embedding:
    """The embeddings of rows that were read."""
    mean = torch.from_numpy(matrix(table["mean"]))
    if "log_sigma" not in table.column_names:
        return Points(mean[:, None])
    return Gaussian(mean, torch.from_numpy(matrix(table["log_sigma"])))


def checksums(ids: Sequence[str], kinds: Sequence[str], embedding: Embedding) -> Int64[np.ndarray, " n"]:
    """CRC-32 of each row's id, kind and numbers."""
    mean, log_sigma = numbers(embedding)
    sums = np.empty(len(ids), np.int64)
    for n, (name, kind) in enumerate(zip(ids, kinds, strict=True)):
        crc = zlib.crc32(mean[n], zlib.crc32(f"{kind}:{name}".encode()))
        sums[n] = crc if log_sigma is None else zlib.crc32(log_sigma[n], crc)
    return sums


def metadata_table(metadata: Metadata, count: int) -> pa.Table | None:
    """Metadata of `count` items as typed columns; None without any: such a table has no length."""
    if metadata is None:
        return None
    try:
        if not isinstance(metadata, pa.Table | Mapping):
            names = dict.fromkeys(name for row in metadata for name in row)
            metadata = {name: [row.get(name) for row in metadata] for name in names}
        table = metadata if isinstance(metadata, pa.Table) else pa.Table.from_pydict(metadata)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"metadata: no type fits all values of a column, {error}. Give each one type.") from error
    if not table.num_columns:
        return None
    if len(table) != count:
        raise DataError(f"metadata: must be one per item ({count:,}), got {len(table):,}.")
    checked_names(table.column_names)
    return table


def checked_ids(ids: Sequence[str]) -> Sequence[str]:
    """The ids; an error for one that is not a text of its own."""
    if wrong := [name for name in ids if not isinstance(name, str) or not name.strip()]:
        raise DataError(f"id: must be text that is not empty, got {wrong[0]!r:.60}.")
    if long := [name for name in ids if len(name) > LONGEST_ID]:
        raise DataError(f"id: must have at most {LONGEST_ID:,} characters, got {len(long[0]):,}.")
    if twice := _repeated(ids):
        raise DataError(f'id: "{twice}" is given twice. Give every item an id of its own.')
    return ids


def checked_names(names: Iterable[str]) -> list[str]:
    """The names of columns of metadata; an error for one that the engine could not read."""
    columns = list(names)
    for name in columns:
        readable = name.isprintable() and not name.startswith("_") and name.strip() and not {".", "`"} & {*name}
        if name in RESERVED or not readable:
            raise ConfigError(
                f'column: "{name:.60}" cannot be a column of metadata. Rename it, or leave it out; reserved are '
                f"{', '.join(RESERVED)}, and names that begin with _ or have a dot, a backtick or a line break."
            )
    if twice := _repeated(columns):
        raise ConfigError(f'column: "{twice}" is given twice. Rename one, or leave it out.')
    return columns


def vectors_column(values: Float32[np.ndarray, "n d"]) -> pa.Array:
    """A matrix as a column of vectors."""
    flat = pa.array(np.ascontiguousarray(values, np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def matrix(column: pa.ChunkedArray, width: int | None = None) -> Float32[np.ndarray, "n d"]:
    """A column of vectors as a matrix that may be changed; `width` is needed where the type does not tell it."""
    flat = pc.list_flatten(column).to_numpy()  # Arrow's memory is read-only, torch wants its own
    return np.require(flat, np.float32, ["C", "W"]).reshape(-1, width or column.type.list_size)


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of a schema: others are left out, missing ones are null."""
    columns = []
    for field in schema:
        values = table[field.name] if field.name in table.column_names else pa.nulls(len(table), field.type)
        try:
            columns.append(values.cast(field.type))
        except (pa.ArrowException, TypeError) as error:
            raise DataError(
                f'column "{field.name}": holds {field.type}, got {values.type} that does not fit ({error}). '
                "Convert the values, or write them to another column or file."
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)


def _repeated(names: Sequence[str]) -> str | None:
    """A name that is there more than once."""
    return None if len(set(names)) == len(names) else Counter(names).most_common(1)[0][0]


def _type(name: str, kind: str) -> pa.DataType:
    try:
        return pa.type_for_alias(kind)
    except ValueError as error:
        raise ConfigError(
            f'column "{name}": unknown type, got "{kind}". Use one of Arrow, such as string, int64, double, bool.'
        ) from error
