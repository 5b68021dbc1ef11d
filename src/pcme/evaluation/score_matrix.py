"""A matrix of scores that others computed, [images, captions] in a .npy file: mapped, and read in blocks."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from pcme.data.arrays import mapped_array
from pcme.errors import DataError, FormatError
from pcme.evaluation.passes import Blocks
from pcme.evaluation.rows import Order
from pcme.retrieval.blocks import read_rows

BLOCK_BYTES = 64 * 2**20
"""Bytes of the matrix that are in memory at a time, beside what ranking them takes."""


@dataclass(frozen=True, eq=False)
class ScoreMatrix:
    """The scores of all images with all captions, higher is better."""

    path: Path
    values: Float[np.ndarray, "i c"]

    @classmethod
    def open(cls, path: str | Path) -> "ScoreMatrix":
        """Map a file of real numbers in two dimensions."""
        file = Path(path)
        if not file.is_file():
            raise DataError(f"{file}: no such file. Give a .npy file of scores [images, captions].")
        values = mapped_array(file)
        if values.ndim != 2 or values.dtype.kind != "f" or 0 in values.shape:
            raise FormatError(
                f"{file}: must hold real numbers [images, captions], got {values.dtype} {list(values.shape)}. Save "
                "one score per pair."
            )
        return cls(file, values)

    def require_order(self) -> None:
        """Refuse NaN, which has no order, and +inf, which is an overflow; -inf is the log of 0, and last."""
        step = _rows_at_once(self.values)
        for start in range(0, len(self.values), step):
            block = np.asarray(self.values[start : start + step])
            unordered = ~(block.max(axis=1) < np.inf)  # NaN wins a max
            if unordered.any():
                row = int(unordered.argmax())
                column = int((~(block[row] < np.inf)).argmax())
                raise DataError(
                    f"{self.path}: must not be NaN or +inf, got {block[row, column]} at image {start + row:,}, caption "
                    f"{column:,} (from 0). Compute these scores again."
                )

    def by_image(self, images: Order, captions: Order) -> Blocks:
        """The scores of images as queries."""
        return _blocks(self.values, images, captions)

    def by_caption(self, images: Order, captions: Order) -> Blocks:
        """The scores of captions as queries."""
        return _blocks(self.values.T, captions, images)


def _blocks(values: Float[np.ndarray, "q g"], queries: Order, gallery: Order) -> Blocks:
    count, step = values.shape[0] if queries is None else len(queries), _rows_at_once(values)
    for start in range(0, count, step):
        rows = slice(start, min(count, start + step))
        block = read_rows(values, rows) if queries is None else values[queries[rows]]
        yield rows, block if gallery is None else block[:, gallery]


def _rows_at_once(values: Float[np.ndarray, "q g"]) -> int:
    row_bytes: int = values.shape[1] * values.itemsize
    return max(1, BLOCK_BYTES // row_bytes)
