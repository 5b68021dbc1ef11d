"""Vectors of your own as items: NumPy files, Parquet, and folders that clip-retrieval wrote.

    a.npy                    [n, d] points; beside it a.log_sigma.npy, if they are Gaussians
    a.parquet                columns mean (or embedding, vector), log_sigma (or sigma), id, kind,
                             path, text (or caption); others are metadata; `pcme embed` writes it
    folder/img_emb/*.npy     and text_emb/*.npy, with metadata/*.parquet row by row

Files are mapped or read by row groups, never as a whole.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from jaxtyping import Float, Float32

from pcme.data.problems import Problems
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import DataError, FormatError
from pcme.index.columns import Kind, Rows, metadata_table, without_row_numbers
from pcme.index.encoder import Encoder
from pcme.index.items import Source
from pcme.index.settings import POINT

__all__ = ["NumpyVectors", "ParquetVectors", "is_vectors", "vector_sources"]

MEANS = ("mean", "embedding", "vector")
SPREADS = ("log_sigma", "sigma")
TEXTS = ("text", "caption")
PATHS = ("path", "image_path")
SIDES: dict[str, Kind] = {"img_emb": "image", "text_emb": "caption"}
"""The folders of clip-retrieval, and what the vectors in them are of."""


def is_vectors(path: Path) -> bool:
    """Whether a file or folder holds vectors, judged by names alone."""
    return path.suffix in (".npy", ".parquet") or any((path / side).is_dir() for side in SIDES)


def vector_sources(path: Path) -> list[Source]:
    """The items in a file, or in a folder of clip-retrieval's."""
    if path.suffix == ".npy":
        return [NumpyVectors(path)]
    if path.suffix == ".parquet":
        return [ParquetVectors(path)]
    found: list[Source] = [
        NumpyVectors(file, kind, _beside(path, file))
        for side, kind in SIDES.items()
        for file in sorted((path / side).glob("*.npy"))
    ]
    if not found:
        raise DataError(f"{path} has no vectors - expected img_emb/*.npy or text_emb/*.npy")
    return found


@dataclass(frozen=True, eq=False)
class NumpyVectors(Source):
    """The rows of a .npy file; what is known of them stands in a Parquet file of as many rows."""

    path: Path
    kind: Kind = "image"
    beside: Path | None = None
    chunk: int = 16384

    @cached_property
    def ids(self) -> Sequence[str]:  # type: ignore[override]
        """Where their metadata have names, these; else the file and the row."""
        numbered = [f"{self.path.stem}/{n}" for n in range(len(self._mean))]
        names = self._texts(("id", *PATHS, "key"))
        mark = "#text" if self.kind == "caption" else ""
        if names is None:
            return numbered
        pairs = zip(names, numbered, strict=True)
        return [number if name is None else f"{name}{mark}" for name, number in pairs]

    def rows(self, places: Sequence[int], encoder: Encoder, problems: Problems) -> Rows:
        """Read from the map."""
        index = np.asarray(places)
        log_sigma = self._log_sigma
        embedding = _embedding(
            self._mean[index], None if log_sigma is None else log_sigma[index], self.path
        )
        paths, texts = self._texts(PATHS), self._texts(TEXTS)
        others = self._others
        return Rows(
            [self.ids[n] for n in places],
            [self.kind] * len(places),
            embedding,
            None if paths is None or self.kind == "caption" else [paths[n] for n in places],
            None if texts is None else [texts[n] for n in places],
            None if others is None else others.take(list(places)),
        )

    @cached_property
    def _mean(self) -> Float[np.ndarray, "n d"]:
        return _mapped(self.path)

    @cached_property
    def _log_sigma(self) -> Float[np.ndarray, "n s"] | None:
        file = self.path.with_suffix(".log_sigma.npy")
        if not file.is_file():
            return None
        found = _mapped(file)
        if len(found) != len(self._mean):
            raise DataError(f"{file} has {len(found):,} rows, {self.path} has {len(self._mean):,}")
        return found

    @cached_property
    def _known(self) -> pa.Table | None:
        if self.beside is None:
            return None
        found = _distinct(_parquet(self.beside), self.beside).read()
        if len(found) != len(self._mean):
            raise DataError(
                f"{self.beside} has {len(found):,} rows, {self.path} has {len(self._mean):,}"
            )
        return found

    @cached_property
    def _others(self) -> pa.Table | None:
        known = self._known
        if known is None:
            return None
        used = {"id", _one_of(PATHS, known.column_names), _one_of(TEXTS, known.column_names)}
        return _without(known, used)

    def _texts(self, names: Sequence[str]) -> list[str | None] | None:
        """The column that has one of these names."""
        if self._known is None or self.beside is None:
            return None
        return _texts(self._known, _one_of(names, self._known.column_names), self.beside)


@dataclass(frozen=True, eq=False)
class ParquetVectors(Source):
    """The rows of a Parquet file, read one row group at a time."""

    path: Path
    kind: Kind = "image"
    chunk: int = 16384

    @cached_property
    def ids(self) -> Sequence[str]:  # type: ignore[override]
        """The column id, or the file and the row."""
        if "id" not in self._names:
            return [f"{self.path.stem}/{n}" for n in range(self._file.metadata.num_rows)]
        found = _texts(self._file.read(["id"]), "id", self.path) or []
        if None in found:
            raise DataError(
                f"{self.path}: row {found.index(None):,} has no id - give it one, or leave the "
                "column out"
            )
        return [one for one in found if one is not None]

    def rows(self, places: Sequence[int], encoder: Encoder, problems: Problems) -> Rows:
        """From the row groups that have them."""
        table = self._read(places)
        mean, path, text = (_one_of(names, self._names) for names in (MEANS, PATHS, TEXTS))
        spread = _one_of(SPREADS, self._names)
        return Rows(
            [self.ids[n] for n in places],
            self._kinds(table),
            self._embedding(table, mean, spread),
            _texts(table, path, self.path),
            _texts(table, text, self.path),
            _without(table, {"id", "kind", mean, spread, path, text}),
        )

    def _kinds(self, table: pa.Table) -> list[Kind]:
        if "kind" not in self._names:
            return [self.kind] * len(table)
        found: list[Kind] = table["kind"].to_pylist()
        if wrong := [one for one in found if one not in get_args(Kind)]:
            raise DataError(f"{self.path}: a kind is image or caption - got {wrong[0]!r:.60}")
        return found

    def _embedding(self, table: pa.Table, mean: str | None, spread: str | None) -> Embedding:
        if mean is None:
            raise FormatError(
                f"{self.path} has no column {' or '.join(MEANS)} - it has {', '.join(self._names)}"
            )
        x = _lists(table, mean, self.path)
        if spread is None:
            return _embedding(x, None, self.path)
        values = _lists(table, spread, self.path)
        if spread == "sigma":
            with np.errstate(divide="ignore", invalid="ignore"):
                values = np.log(values)
        return _embedding(x, values, self.path)

    def _read(self, places: Sequence[int]) -> pa.Table:
        """These rows, from the row groups that have them."""
        sizes = [
            self._file.metadata.row_group(n).num_rows for n in range(self._file.num_row_groups)
        ]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        first, last = np.searchsorted(starts, (places[0], places[-1]), side="right") - 1
        groups = range(int(first), int(last) + 1)
        return self._file.read_row_groups(list(groups)).take(np.asarray(places) - starts[first])

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return _distinct(_parquet(self.path), self.path)

    @cached_property
    def _names(self) -> list[str]:
        found: list[str] = self._file.schema_arrow.names
        return found


def _embedding(
    mean: Float[np.ndarray, "n d"], log_sigma: Float[np.ndarray, "n s"] | None, path: Path
) -> Embedding:
    """Points, or Gaussians; σ = 0 says that a vector is a point."""
    x = torch.from_numpy(np.ascontiguousarray(mean, np.float32))
    if log_sigma is None or np.isneginf(log_sigma).all():
        return Points(x[:, None])
    finite = np.where(np.isneginf(log_sigma), POINT, log_sigma)
    found = Gaussian(x, torch.from_numpy(np.ascontiguousarray(finite, np.float32)))
    found.require_finite(str(path))
    return found


def _one_of(names: Sequence[str], there: Sequence[str]) -> str | None:
    """The first of these names that is there."""
    return next((name for name in names if name in there), None)


def _without(table: pa.Table, used: set[str | None]) -> pa.Table | None:
    """The columns that are metadata: all but those that were used for something else."""
    names = [name for name in table.column_names if name not in used]
    return metadata_table(without_row_numbers(table.select(names)), len(table))


def _beside(folder: Path, file: Path) -> Path | None:
    """metadata/metadata_3.parquet for img_emb/img_emb_3.npy."""
    number = file.stem.rpartition("_")[2]
    found = folder / "metadata" / f"metadata_{number}.parquet"
    return found if found.is_file() else None


def _mapped(path: Path) -> Float[np.ndarray, "n d"]:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (EOFError, OSError, ValueError) as error:
        raise FormatError(f"{path} is not a NumPy file of numbers - {error}") from error
    if found.ndim != 2 or found.dtype.kind != "f" or not len(found):
        raise FormatError(
            f"{path} must hold real numbers of shape [n, d] - got {found.dtype} {list(found.shape)}"
        )
    mapped: Float[np.ndarray, "n d"] = found
    return mapped


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"{path} is not a Parquet file - {error}") from error


def _distinct(file: pq.ParquetFile, path: Path) -> pq.ParquetFile:
    """The file; an error when two of its columns have one name."""
    name, count = Counter(file.schema_arrow.names).most_common(1)[0]
    if count > 1:
        raise FormatError(f'{path} has {count} columns "{name}" - rename one, or leave it out')
    return file


def _texts(table: pa.Table, name: str | None, path: Path) -> list[str | None] | None:
    """A column as texts, whatever they were written as; None where there is no such column."""
    if name is None:
        return None
    try:
        found: list[str | None] = table[name].cast(pa.string()).to_pylist()
    except pa.ArrowException as error:
        raise FormatError(
            f'{path}: the column "{name}" must hold texts - got {table[name].type}'
        ) from error
    return found


def _lists(table: pa.Table, name: str, path: Path) -> Float32[np.ndarray, "n d"]:
    """A column of lists of one length."""
    column = table[name]
    kind = column.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (lists or pa.types.is_fixed_size_list(kind)) or not _is_number(kind.value_type):
        raise FormatError(
            f'{path}: the column "{name}" must hold vectors, lists of numbers - got {kind}'
        )
    if column.null_count:
        raise DataError(f'{path}: {column.null_count:,} rows have no "{name}" - leave them out')
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        raise FormatError(
            f'{path}: the vectors of "{name}" must all have one length - got {lengths}'
        )
    flat = pc.list_flatten(column).to_numpy()
    return np.asarray(flat, np.float32).reshape(-1, lengths[0])


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
