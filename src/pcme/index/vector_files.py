"""Vectors of your own as items: NumPy files, Parquet, and folders that clip-retrieval wrote.

    a.npy                    [n, d] points; beside it a.log_sigma.npy, if they are Gaussians
    a.parquet                columns mean (or embedding, vector), log_sigma (or sigma), id, kind,
                             path, text (or caption); others are metadata; `pcme embed` writes it
    folder/img_emb/*.npy     and text_emb/*.npy, with metadata/*.parquet row by row

Files are mapped or read by row groups, never as a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Float

from pcme.data.problems import Problems
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import DataError, FormatError
from pcme.index.arrow_files import mapped, metadata_in, one_of, opened, texts_in, vectors_in
from pcme.index.encoder import Encoder
from pcme.index.items import Source
from pcme.index.origins import Origin, origins_of
from pcme.index.rows import Kind, Rows
from pcme.index.settings import POINT

__all__ = ["MODEL", "NumpyVectors", "ParquetVectors", "is_vectors", "vector_sources"]

MODEL = b"pcme.model"
"""The digest of the model, among the metadata of a Parquet file's schema."""

SPREAD = ".log_sigma.npy"
"""How a file ends that holds log σ of the vectors in the file without it."""
MEANS = ("mean", "embedding", "vector")
SPREADS = ("log_sigma", "sigma")
TEXTS = ("text", "caption")
PATHS = ("path", "image_path")
SIDES: dict[str, Kind] = {"img_emb": "image", "text_emb": "caption"}
"""The folders of clip-retrieval, and what the vectors in them are of."""


def is_vectors(path: Path) -> bool:
    """Whether a file or folder holds vectors, judged by names alone."""
    return path.suffix in (".npy", ".parquet") or any((path / side).is_dir() for side in SIDES)


def vector_sources(path: Path, kind: Kind = "image") -> list[Source]:
    """The items in a file, of this kind if it does not say; or in a folder of clip-retrieval's.

    None in `a.log_sigma.npy`: it is read with `a.npy`, and a shell's `*.npy` names both.
    """
    if path.suffix == ".npy":
        return [] if _is_spread(path) else [NumpyVectors(path, kind)]
    if path.suffix == ".parquet":
        return [ParquetVectors(path, kind)]
    found: list[Source] = [
        NumpyVectors(file, kind, _beside(path, file))
        for side, kind in SIDES.items()
        for file in sorted((path / side).glob("*.npy"))
        if not _is_spread(file)
    ]
    if not found:
        raise DataError(f"{path} has no vectors - expected img_emb/*.npy or text_emb/*.npy")
    return found


def _is_spread(path: Path) -> bool:
    """Whether a file holds log σ of the vectors in another."""
    if not path.name.endswith(SPREAD):
        return False
    of = path.with_name(path.name.removesuffix(SPREAD) + ".npy")
    if not of.is_file():
        raise DataError(f"{path} is log σ of the vectors in {of}, which is not there")
    return True


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
        paths, texts = self._known_of(places)
        others = self._others
        return Rows(
            [self.ids[n] for n in places],
            [self.kind] * len(places),
            embedding,
            paths,
            texts,
            None if others is None else others.take(list(places)),
        )

    def origins(self, places: Sequence[int]) -> list[Origin]:
        """From their metadata."""
        return origins_of([self.kind] * len(places), *self._known_of(places))

    def _known_of(
        self, places: Sequence[int]
    ) -> tuple[list[str | None] | None, list[str | None] | None]:
        """Their (paths, texts); a caption has no file."""
        paths = self._texts(PATHS) if self.kind == "image" else None
        texts = self._texts(TEXTS)
        return (
            None if paths is None else [paths[n] for n in places],
            None if texts is None else [texts[n] for n in places],
        )

    @cached_property
    def _mean(self) -> Float[np.ndarray, "n d"]:
        return mapped(self.path)

    @cached_property
    def _log_sigma(self) -> Float[np.ndarray, "n s"] | None:
        file = self.path.with_suffix(SPREAD)
        if not file.is_file():
            return None
        found = mapped(file)
        if len(found) != len(self._mean):
            raise DataError(f"{file} has {len(found):,} rows, {self.path} has {len(self._mean):,}")
        return found

    @cached_property
    def _known(self) -> pa.Table | None:
        if self.beside is None:
            return None
        found = opened(self.beside).read()
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
        used = {"id", one_of(PATHS, known.column_names), one_of(TEXTS, known.column_names)}
        return metadata_in(known, used)

    def _texts(self, names: Sequence[str]) -> list[str | None] | None:
        """The column that has one of these names."""
        if self._known is None or self.beside is None:
            return None
        return texts_in(self._known, one_of(names, self._known.column_names), self.beside)


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
        found = texts_in(self._file.read(["id"]), "id", self.path) or []
        if None in found:
            raise DataError(
                f"{self.path}: row {found.index(None):,} has no id - give it one, or leave the "
                "column out"
            )
        return [one for one in found if one is not None]

    def rows(self, places: Sequence[int], encoder: Encoder, problems: Problems) -> Rows:
        """From the row groups that have them."""
        table = self._read(places)
        mean, path, text = (one_of(names, self._names) for names in (MEANS, PATHS, TEXTS))
        spread = one_of(SPREADS, self._names)
        return Rows(
            [self.ids[n] for n in places],
            self._kinds(table),
            self._embedding(table, mean, spread),
            texts_in(table, path, self.path),
            texts_in(table, text, self.path),
            metadata_in(table, {"id", "kind", mean, spread, path, text}),
        )

    def origins(self, places: Sequence[int]) -> list[Origin]:
        """From the columns that tell it."""
        path, text = (one_of(names, self._names) for names in (PATHS, TEXTS))
        told = [name for name in ("kind", path, text) if name in self._names]
        if not places or not told:
            return [Origin(self.kind)] * len(places)
        table = self._read(places, told)
        paths, texts = (texts_in(table, name, self.path) for name in (path, text))
        return origins_of(self._kinds(table), paths, texts)

    @property
    def model(self) -> str | None:
        """As `pcme embed` has noted it."""
        noted: bytes | None = (self._file.schema_arrow.metadata or {}).get(MODEL)
        return None if noted is None else noted.decode()

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
        x = vectors_in(table, mean, self.path)
        if spread is None:
            return _embedding(x, None, self.path)
        values = vectors_in(table, spread, self.path)
        if spread == "sigma":
            with np.errstate(divide="ignore", invalid="ignore"):
                values = np.log(values)
        return _embedding(x, values, self.path)

    def _read(self, places: Sequence[int], columns: list[str] | None = None) -> pa.Table:
        """These rows, ascending, with these columns, or all."""
        sizes = [
            self._file.metadata.row_group(n).num_rows for n in range(self._file.num_row_groups)
        ]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        first, last = np.searchsorted(starts, (places[0], places[-1]), side="right") - 1
        groups = list(range(int(first), int(last) + 1))
        found = self._file.read_row_groups(groups, columns)
        return found.take(np.asarray(places) - starts[first])

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return opened(self.path)

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


def _beside(folder: Path, file: Path) -> Path | None:
    """metadata/metadata_3.parquet for img_emb/img_emb_3.npy."""
    number = file.stem.rpartition("_")[2]
    found = folder / "metadata" / f"metadata_{number}.parquet"
    return found if found.is_file() else None
