"""Files of vectors as items: NumPy, Parquet, and folders that clip-retrieval wrote.

    a.npy                    [n, d] points; a.log_sigma.npy beside it makes them Gaussians
    a.parquet                columns mean (or embedding, vector), log_sigma (or sigma), id, kind,
                             path, text (or caption); others are metadata; `pcme embed` writes it
    folder/img_emb/*.npy     and text_emb/*.npy, with metadata/*.parquet row by row

Files are mapped or read by row groups, never as a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Float

from pcme.data.problems import Problems
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import DataError, FormatError
from pcme.index.arrow_files import first_present, map_numpy, metadata_in, open_parquet, texts_in, vectors_in
from pcme.index.encoder import Encoder
from pcme.index.items import Source
from pcme.index.rows import Kind, Origin, Rows, Texts, origins_of, take
from pcme.index.settings import POINT

T = TypeVar("T", pa.Table, np.ndarray)

MODEL = b"pcme.model"
"""The key of the model's digest in the metadata of a Parquet file's schema."""
LOG_SIGMA = ".log_sigma.npy"
"""The suffix of a file that holds log σ of the vectors in the file without it."""
MEANS = ("mean", "embedding", "vector")
SIGMAS = ("log_sigma", "sigma")
TEXTS = ("text", "caption")
PATHS = ("path", "image_path")
KINDS: dict[str, Kind] = {"img_emb": "image", "text_emb": "caption"}
"""The folders of clip-retrieval, and the kind of the vectors in them."""


def is_vectors(path: Path) -> bool:
    """Whether a file or folder holds vectors: a Parquet file by its columns, others by their names."""
    if path.suffix == ".parquet":
        return first_present(MEANS, open_parquet(path).schema_arrow.names) is not None
    return path.suffix == ".npy" or any((path / name).is_dir() for name in KINDS)


def vector_sources(path: Path, kind: Kind = "image") -> list[Source]:
    """The items in a file, of this kind unless it has a column kind, or in clip-retrieval's folder.

    None for `a.log_sigma.npy`: it is read with `a.npy`, and a shell's `*.npy` names both.
    """
    if path.suffix == ".npy":
        return [] if _is_log_sigma(path) else [NumpyVectors(path, kind)]
    if path.suffix == ".parquet":
        return [ParquetVectors(path, kind)]
    sources: list[Source] = [
        NumpyVectors(file, kind, _metadata_file(path, file))
        for name, kind in KINDS.items()
        for file in sorted((path / name).glob("*.npy"))
        if not _is_log_sigma(file)
    ]
    if not sources:
        raise DataError(f"{path}: has no vectors. Expected img_emb/*.npy or text_emb/*.npy.")
    return sources


def _is_log_sigma(path: Path) -> bool:
    """Whether a file holds log σ of the vectors in another."""
    if not path.name.endswith(LOG_SIGMA):
        return False
    means = path.with_name(path.name.removesuffix(LOG_SIGMA) + ".npy")
    if not means.is_file():
        raise DataError(f"{path}: holds log σ of the vectors in {means}, which is missing.")
    return True


@dataclass(frozen=True, eq=False)
class NumpyVectors(Source):
    """The rows of a .npy file; a Parquet file of as many rows may have their metadata."""

    path: Path
    kind: Kind = "image"
    metadata_path: Path | None = None
    chunk: int = 16384

    @cached_property
    def ids(self) -> Sequence[str]:  # type: ignore[override]
        """The names in the metadata; without one, the file and the row."""
        names = self._texts(("id", *PATHS, "key")) or [None] * len(self._mean)
        mark = "#text" if self.kind == "caption" else ""
        return [f"{self.path.stem}/{n}" if name is None else f"{name}{mark}" for n, name in enumerate(names)]

    @cached_property
    def metadata(self) -> pa.Table | None:  # type: ignore[override]
        """The columns of the Parquet file that have no other use."""
        if self._table is None:
            return None
        columns = self._table.column_names
        return metadata_in(self._table, {"id", first_present(PATHS, columns), first_present(TEXTS, columns)})

    def rows(self, indices: Sequence[int], encoder: Encoder, problems: Problems) -> Rows:
        """Read from the map."""
        rows = np.asarray(indices)
        log_sigma = None if self._log_sigma is None else self._log_sigma[rows]
        return self._rows(indices, _embedding(self._mean[rows], log_sigma, self.path))

    def origins(self, indices: Sequence[int]) -> list[Origin]:
        """From the metadata; a caption has no file."""
        paths = take(self._texts(PATHS), indices) if self.kind == "image" else None
        return origins_of([self.kind] * len(indices), paths, take(self._texts(TEXTS), indices))

    @cached_property
    def _mean(self) -> Float[np.ndarray, "n d"]:
        return map_numpy(self.path)

    @cached_property
    def _log_sigma(self) -> Float[np.ndarray, "n s"] | None:
        file = self.path.with_suffix(LOG_SIGMA)
        return self._as_many(map_numpy(file), file) if file.is_file() else None

    @cached_property
    def _table(self) -> pa.Table | None:
        file = self.metadata_path
        return None if file is None else self._as_many(open_parquet(file).read(), file)

    def _as_many(self, values: T, file: Path) -> T:
        if (count := len(values)) != (vectors := len(self._mean)):
            raise DataError(f"{file}: must have one row per vector of {self.path} ({vectors:,}), got {count:,}.")
        return values

    def _texts(self, names: Sequence[str]) -> Texts:
        """The column that has one of these names."""
        return None if self._table is None else texts_in(self._table, names, self.metadata_path or self.path)


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
        names = texts_in(self._file.read(["id"]), ["id"], self.path) or []
        if None in names:
            raise DataError(f"{self.path}: row {names.index(None):,} has no id. Give it one, or leave the column out.")
        return [name for name in names if name is not None]

    def rows(self, indices: Sequence[int], encoder: Encoder, problems: Problems) -> Rows:
        """Read from the row groups that have them."""
        table = self._read(indices)
        mean, sigma, path, text = (first_present(names, self._names) for names in (MEANS, SIGMAS, PATHS, TEXTS))
        metadata = metadata_in(table, {"id", "kind", mean, sigma, path, text})
        embedding = self._embedding(table, mean, sigma)
        return Rows([self.ids[n] for n in indices], self._origins(table), embedding, metadata)

    def origins(self, indices: Sequence[int]) -> list[Origin]:
        """From the columns kind, path and text."""
        columns = [name for name in ("kind", *PATHS, *TEXTS) if name in self._names]
        if not indices or not columns:
            return [Origin(self.kind)] * len(indices)
        return self._origins(self._read(indices, columns))

    @property
    def model(self) -> str | None:  # type: ignore[override]
        """The digest that `pcme embed` noted."""
        digest: bytes | None = (self._file.schema_arrow.metadata or {}).get(MODEL)
        return None if digest is None else digest.decode()

    def _origins(self, table: pa.Table) -> list[Origin]:
        paths, texts = (texts_in(table, names, self.path) for names in (PATHS, TEXTS))
        if "kind" not in self._names:
            return origins_of([self.kind] * len(table), paths, texts)
        kinds: list[Kind] = table["kind"].to_pylist()
        if wrong := [kind for kind in kinds if kind not in get_args(Kind)]:
            raise DataError(f"{self.path}: a kind must be image or caption, got {wrong[0]!r:.60}.")
        return origins_of(kinds, paths, texts)

    def _embedding(self, table: pa.Table, mean: str | None, sigma: str | None) -> Embedding:
        if mean is None:
            raise FormatError(f"{self.path}: has no column {' or '.join(MEANS)}, got {', '.join(self._names)}.")
        values = None if sigma is None else vectors_in(table, sigma, self.path)
        if values is not None and sigma == "sigma":
            with np.errstate(divide="ignore", invalid="ignore"):
                values = np.log(values)
        return _embedding(vectors_in(table, mean, self.path), values, self.path)

    def _read(self, indices: Sequence[int], columns: list[str] | None = None) -> pa.Table:
        """These rows, ascending, with these columns, or all."""
        counts = [self._file.metadata.row_group(n).num_rows for n in range(self._file.num_row_groups)]
        starts = np.concatenate(([0], np.cumsum(counts)))
        first, last = np.searchsorted(starts, (indices[0], indices[-1]), side="right") - 1
        table = self._file.read_row_groups(list(range(int(first), int(last) + 1)), columns)
        return table.take(np.asarray(indices) - starts[first])

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return open_parquet(self.path)

    @cached_property
    def _names(self) -> list[str]:
        names: list[str] = self._file.schema_arrow.names
        return names


def _embedding(mean: Float[np.ndarray, "n d"], log_sigma: Float[np.ndarray, "n s"] | None, path: Path) -> Embedding:
    """Points, or Gaussians; a vector with σ = 0 is a point."""
    x = torch.from_numpy(np.ascontiguousarray(mean, np.float32))
    if log_sigma is None or np.isneginf(log_sigma).all():
        return Points(x[:, None])
    finite = np.where(np.isneginf(log_sigma), POINT, log_sigma)
    items = Gaussian(x, torch.from_numpy(np.ascontiguousarray(finite, np.float32)))
    items.require_finite(str(path))
    return items


def _metadata_file(folder: Path, file: Path) -> Path | None:
    """metadata/metadata_3.parquet for img_emb/img_emb_3.npy."""
    number = file.stem.rpartition("_")[2]
    path = folder / "metadata" / f"metadata_{number}.parquet"
    return path if path.is_file() else None
