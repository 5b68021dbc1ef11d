"""Arrays in .npy files: mapped, never loaded whole, so that they may be larger than memory."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from numpy.lib.format import MAGIC_PREFIX
from torch import Tensor

from pcme.errors import DataError, FormatError

CHECKED_BYTES = 64 * 2**20
"""Bytes that are read at a time when a file is checked."""


def mapped_array(path: Path) -> Shaped[np.ndarray, "..."]:
    """The array in a .npy file; pickled objects and archives are refused."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                raise ValueError("its first bytes are others")
        values: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (EOFError, OSError, ValueError) as error:
        raise FormatError(f"{path}: not a NumPy file of numbers, {error}. Write one with numpy.save.") from error
    return values


@dataclass(frozen=True, eq=False)
class VectorFile:
    """Rows of an array [n,d] or [n,s,d] of a file; a row is one vector or s of them."""

    values: Float[np.ndarray, "n ..."]
    rows: Int64[np.ndarray, " m"]

    @classmethod
    def open(cls, path: Path) -> "VectorFile":
        """All rows of a .npy file, of which every number must be finite."""
        values = mapped_array(path)
        if values.ndim not in (2, 3) or values.dtype.kind != "f":
            shape = f"{values.dtype} {list(values.shape)}"
            raise FormatError(f"{path}: must hold real numbers of shape [n, d] or [n, s, d], got {shape}.")
        _require_finite(values, path)
        return cls(values, np.arange(len(values)))

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return int(self.values.shape[-1])

    def row(self, index: int) -> Float[Tensor, "s d"]:
        """The vectors of one item, in single precision."""
        return torch.from_numpy(np.atleast_2d(np.array(self.values[self.rows[index]], np.float32)))

    def picked(self, rows: Int64[np.ndarray, " k"]) -> "VectorFile":
        """These of the rows, in this order."""
        return VectorFile(self.values, self.rows[rows])

    def __len__(self) -> int:
        return len(self.rows)


def _require_finite(values: Float[np.ndarray, "n ..."], path: Path) -> None:
    step = max(1, CHECKED_BYTES // max(1, values[:1].nbytes))
    for start in range(0, len(values), step):
        block = values[start : start + step]
        bad = ~np.isfinite(block.reshape(len(block), -1)).all(1)
        if bad.any():
            row = start + int(bad.argmax())
            raise DataError(f"{path}: row {row} has a value that is NaN or infinite. Compute it again or leave it out.")
