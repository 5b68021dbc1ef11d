"""Vectors of your own as items: NumPy files, Parquet, and folders that clip-retrieval wrote.

    a.npy                    [n, d] points; beside it a.log_sigma.npy, if they are Gaussians
    a.parquet                columns mean (or embedding, vector), log_sigma (or sigma), id, kind,
                             path, text (or caption); others are metadata; `pcme embed` writes it
    folder/img_emb/*.npy     and text_emb/*.npy, with metadata/*.parquet row by row

Files are mapped or read by row groups, never as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Float, Float32

from pcme.data.problems import Problems
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import DataError, FormatError
from pcme.index.columns import OWN, Kind, Rows
from pcme.index.encoder import Encoder
from pcme.index.items import Source
from pcme.index.settings import POINT

__all__ = ["NumpyVectors", "ParquetVectors", "is_vectors", "vector_sources"]

MEANS = ("mean", "embedding", "vector")
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
        names = self._column(("id", *PATHS, "key"))
        mark = "#text" if self.kind == "caption" else ""
        if names is None:
            return [f"{self.path.stem}/{n}" for n in range(len(self._mean))]
        return [f"{name}{mark}" for name in names]

    def rows(self, places: Sequence[int], encoder: Encoder, problems: Problems) -> Rows:
        """Read from the map."""
        index = np.asarray(places)
        log_sigma = self._log_sigma
        embedding = _embedding(
            self._mean[index], None if log_sigma is None else log_sigma[index], self.path
        )
        paths, texts = self._column(PATHS), self._column(TEXTS)
        return Rows(
            [self.ids[n] for n in places],
            self.kind,
            embedding,
            None if paths is None or self.kind == "caption" else [paths[n] for n in places],
            None if texts is None else [texts[n] for n in places],
            None if self._known is None else _others(self._known).take(list(places)),
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
        found = _parquet(self.beside).read()
        if len(found) != len(self._mean):
            raise DataError(
                f"{self.beside} has {len(found):,} rows, {self.path} has {len(self._mean):,}"
            )
        return found

    def _column(self, names: Sequence[str]) -> list[str | None] | None:
        known = self._known
        name = next((n for n in names if known is not None and n in known.column_names), None)
        if known is None or name is None:
            return None
        found: list[str | None] = known[name].cast(pa.string()).to_pylist()
        return found


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
        found: list[str] = self._file.read(["id"])["id"].cast(pa.string()).to_pylist()
        return found

    def rows(self, places: Sequence[int], encoder: Encoder, problems: Problems) -> Rows:
        """From the row groups that have them; rows of one piece are of one kind."""
        table = self._read(places)
        kinds = set(table["kind"].to_pylist()) if "kind" in self._names else {self.kind}
        if len(kinds) > 1 or not kinds <= {"image", "caption"}:
            raise DataError(
                f"{self.path} has the kinds {', '.join(map(str, sorted(kinds, key=str)))} side by "
                "side - give images and captions in a file each"
            )
        names = (self._one_of(PATHS), self._one_of(TEXTS))
        paths, texts = (None if n is None else table[n].to_pylist() for n in names)
        others = _others(table)
        return Rows(
            [self.ids[n] for n in places],
            kinds.pop(),
            self._embedding(table),
            paths,
            texts,
            others if others.num_columns else None,
        )

    def _embedding(self, table: pa.Table) -> Embedding:
        name = self._one_of(MEANS)
        if name is None:
            raise FormatError(
                f"{self.path} has no column {' or '.join(MEANS)} - it has {', '.join(self._names)}"
            )
        mean = _lists(table[name], self.path)
        if "log_sigma" in self._names:
            return _embedding(mean, _lists(table["log_sigma"], self.path), self.path)
        if "sigma" in self._names:
            with np.errstate(divide="ignore", invalid="ignore"):
                log_sigma = np.log(_lists(table["sigma"], self.path))
            return _embedding(mean, log_sigma, self.path)
        return _embedding(mean, None, self.path)

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
        return _parquet(self.path)

    @cached_property
    def _names(self) -> list[str]:
        found: list[str] = self._file.schema_arrow.names
        return found

    def _one_of(self, names: Sequence[str]) -> str | None:
        return next((name for name in names if name in self._names), None)


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


def _others(table: pa.Table) -> pa.Table:
    """The columns that are metadata."""
    taken = {*OWN, *MEANS, *TEXTS, *PATHS, "sigma"}
    return table.select([name for name in table.column_names if name not in taken])


def _beside(folder: Path, file: Path) -> Path | None:
    """metadata/metadata_3.parquet for img_emb/img_emb_3.npy."""
    number = file.stem.rpartition("_")[2]
    found = folder / "metadata" / f"metadata_{number}.parquet"
    return found if found.is_file() else None


def _mapped(path: Path) -> Float[np.ndarray, "n d"]:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
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


def _lists(column: pa.ChunkedArray, path: Path) -> Float32[np.ndarray, "n d"]:
    """A column of lists of one length."""
    parts = [np.asarray(row, np.float32) for row in _plain(column)]
    if len({part.shape for part in parts}) != 1:
        raise FormatError(f"{path}: the vectors of a column must all have one length")
    return np.stack(parts)


def _plain(column: pa.ChunkedArray) -> Iterator[object]:
    for chunk in column.chunks:
        yield from (value.values.to_numpy(zero_copy_only=False) for value in chunk)
