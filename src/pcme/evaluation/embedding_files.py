"""Embeddings in files, written by this package or by any other.

    a.npy          [n, d], or [n, k, d] for k points an item; a.log_sigma.npy beside it makes Gaussians
    a.npz          mean and log_sigma; or x, or a single array of any name, for points
    a.safetensors  the same names; `Gaussian.save` and `Points.save` write it
    a.parquet      columns mean (or embedding, vector), log_sigma, id, kind; `pcme embed` writes it

log_sigma is the natural log of the standard deviation. Nothing is unpickled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from jaxtyping import Float, Shaped
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pcme.data.arrays import mapped_array
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import DataError, FormatError
from pcme.evaluation.results import DAMAGED

Kind = Literal["image", "caption"]
Arrays = Mapping[str, Shaped[np.ndarray, "..."] | Shaped[Tensor, "..."]]
Read = tuple[Arrays, tuple[str, ...] | None]
"""The arrays of a file by name, and the ids of its rows."""

MEANS = ("mean", "embedding", "vector")
"""The columns that may hold the vectors."""
LOG_SIGMA = "log_sigma"


@dataclass(frozen=True, eq=False)
class Stored:
    """The embeddings in a file, and the ids of its rows where it has any."""

    path: Path
    kind: Kind
    items: Embedding
    ids: tuple[str, ...] | None = None


def read_embeddings(path: str | Path, kind: Kind) -> Stored:
    """Read the embeddings of images or of captions; every number is finite."""
    file = Path(path)
    if file.suffix not in READERS:
        raise FormatError(f'{file}: must be one of {", ".join(READERS)}, got "{file.suffix}". Save it as one of them.')
    if not file.is_file():
        raise DataError(f"{file}: no such file. Give the embeddings of {kind}s.")
    arrays, ids = READERS[file.suffix](file, kind)
    return Stored(file, kind, _embedding(arrays, file), ids)


def _from_npy(path: Path, kind: Kind) -> Read:
    spread = path.with_suffix(f".{LOG_SIGMA}.npy")
    if not spread.is_file():
        return {"x": mapped_array(path)}, None
    return {"mean": mapped_array(path), LOG_SIGMA: mapped_array(spread)}, None


def _from_npz(path: Path, kind: Kind) -> Read:
    try:
        # Opened here: numpy leaves a file open whose list of contents it cannot read.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return dict(file), None
    except DAMAGED as error:
        raise FormatError(f"{path}: not an archive of arrays, {error}. Write one with numpy.savez.") from error


def _from_safetensors(path: Path, kind: Kind) -> Read:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in sorted(file.keys())}, None
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: not readable as safetensors, {error}. Save it again.") from error


def _from_parquet(path: Path, kind: Kind) -> Read:
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"{path}: not a Parquet file, {error}. Write one with `pcme embed`.") from error
    names = table.column_names
    if "kind" in names:
        table = table.filter(pc.equal(table["kind"].cast(pa.string()), kind))
    mean = next((name for name in MEANS if name in names), None)
    if mean is None or not len(table):
        lacks = "rows of this kind" if mean else f"a column {' or '.join(MEANS)}"
        raise FormatError(f"{path}: lacks {lacks}, got {', '.join(names)}. Write {kind}s with `pcme embed`.")
    arrays = {"mean": _column(table, mean, path)}
    if LOG_SIGMA in names:
        arrays[LOG_SIGMA] = _column(table, LOG_SIGMA, path)
    return arrays, tuple(map(str, table["id"].to_pylist())) if "id" in names else None


READERS = {".npy": _from_npy, ".npz": _from_npz, ".safetensors": _from_safetensors, ".parquet": _from_parquet}
"""The readers by the ends of the files' names."""


def _column(table: pa.Table, name: str, path: Path) -> Float[np.ndarray, "n d"]:
    """A column of vectors of one length as a matrix."""
    column, types = table[name], pa.types
    is_list = types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)
    lengths = pc.unique(pc.list_value_length(column)).to_pylist() if is_list else []
    if len(lengths) != 1 or not lengths[0] or not types.is_floating(column.type.value_type):
        raise FormatError(f'{path}: the column "{name}" must hold vectors of one length, got {column.type}.')
    matrix: Float[np.ndarray, "n d"] = pc.list_flatten(column).to_numpy().reshape(-1, lengths[0])
    return matrix


def _embedding(arrays: Arrays, path: Path) -> Embedding:
    """Gaussians where there is a log σ, else points."""
    names = set(arrays)
    if {"mean", LOG_SIGMA} <= names:
        mean, spread = (_numbers(arrays[name], (2,), f"{path}: {name}") for name in ("mean", LOG_SIGMA))
        if spread.shape not in (mean.shape, (len(mean), 1)):
            raise FormatError(
                f"{path}: log_sigma must have the shape of mean, {list(mean.shape)}, or {[len(mean), 1]}, got "
                f"{list(spread.shape)}. Save one log σ per dimension, or one per item."
            )
        return Gaussian(mean, spread.to(mean.dtype))
    name = next((each for each in ("x", "mean") if each in names), min(names) if len(names) == 1 else "")
    if name in ("", LOG_SIGMA):
        raise FormatError(
            f"{path}: must hold mean and log_sigma, or one array of points, got {', '.join(sorted(names)) or 'none'}. "
            "Save them under these names."
        )
    x = _numbers(arrays[name], (2, 3), str(path) if name == "x" else f"{path}: {name}")
    return Points(x[:, None] if x.ndim == 2 else x)


def _numbers(
    values: Shaped[np.ndarray, "..."] | Shaped[Tensor, "..."], axes: Sequence[int], where: str
) -> Float[Tensor, "..."]:
    """The values in single or double precision, in memory; an error unless all are finite real numbers."""
    real = values.is_floating_point() if isinstance(values, Tensor) else values.dtype.kind == "f"
    if not real or values.ndim not in axes or 0 in values.shape:
        wanted = " or ".join({2: "[n, d]", 3: "[n, k, d]"}[axis] for axis in axes)
        raise FormatError(f"{where}: must hold real numbers {wanted}, got {values.dtype} {list(values.shape)}.")
    if isinstance(values, Tensor):
        numbers = values if values.dtype == torch.float64 else values.float()
    else:
        numbers = torch.from_numpy(np.array(values, np.float64 if values.dtype.itemsize > 4 else np.float32, order="C"))
    bad = ~torch.isfinite(numbers).flatten(1).all(1)
    if bad.any():
        first = int(bad.nonzero()[0, 0])
        raise DataError(
            f"{where}: must be finite, got NaN or an infinite value in {int(bad.sum()):,} of {len(bad):,} rows, first "
            f"in row {first:,}. Compute these rows again."
        )
    return numbers
