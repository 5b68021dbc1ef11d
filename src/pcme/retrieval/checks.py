"""Checks of the arrays that matches are made of."""

import numpy as np
from jaxtyping import Int, Int64
from numpy.typing import ArrayLike

from pcme.errors import DataError, ShapeError


def checked_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """Return (queries, gallery items), neither of them 0."""
    if len(shape) != 2 or min(shape) < 1:
        raise ShapeError(
            f"shape: needs at least one query and one gallery item, got {tuple(shape)}. Give (queries, gallery items)."
        )
    return int(shape[0]), int(shape[1])


def checked_index(index: ArrayLike, size: int, name: str) -> Int64[np.ndarray, " n"]:
    """Return a list of integers from 0 to size - 1."""
    array = np.asarray(index)
    if array.ndim != 1:
        raise ShapeError(f"{name}: must be a list, got shape {array.shape}. Flatten it.")
    if array.size and array.dtype.kind not in "iu":
        raise DataError(f"{name}: must hold integers, got {array.dtype}. Convert it.")
    array = array.astype(np.int64)  # an empty list is an array of floats
    check_range(array, size, name)
    return array


def checked_ids(ids: ArrayLike, shape: tuple[int, int], first_row: int) -> Int[np.ndarray, "q k"]:
    """Return gallery ids [q,k] of the queries from `first_row` on."""
    array = np.asarray(ids)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise ShapeError(
            f"ranked ids: must be an integer matrix, got {array.dtype} of shape {array.shape}. "
            "Give one row of gallery ids per query."
        )
    if not 0 <= first_row <= shape[0] - len(array):
        raise ShapeError(
            f"ranked ids: must belong to the {shape[0]} queries of these matches, got rows "
            f"{first_row} to {first_row + len(array) - 1}. Rank the queries these matches are of."
        )
    check_range(array, shape[1], "ranked ids")
    return array


def check_range(array: Int[np.ndarray, "..."], size: int, name: str) -> None:
    """Refuse a number outside of 0 to size - 1."""
    if array.size and not (array.min() >= 0 and array.max() < size):
        wrong = array[(array < 0) | (array >= size)][0]
        raise DataError(f"{name}: must be from 0 to {size - 1}, got {wrong}. Check the shape or the ids.")


def check_rows(
    indptr: Int64[np.ndarray, " starts"], indices: Int[np.ndarray, " pairs"], shape: tuple[int, int]
) -> None:
    """Refuse what are not sparse rows of ascending indices."""
    spans = indptr.shape == (shape[0] + 1,) and indptr[0] == 0 and indptr[-1] == len(indices)
    if not spans or np.any(np.diff(indptr) < 0):
        raise DataError(
            f"indptr: must rise from 0 to {len(indices)} in {shape[0] + 1} steps, got "
            f"{len(indptr)} values. Build matches with from_pairs."
        )
    check_range(indices, shape[1], "indices")
    rising = np.asarray(indices[1:] > indices[:-1])
    inner = indptr[(indptr > 0) & (indptr < len(indices))]
    rising[inner - 1] = True  # a new row may start anywhere
    if not rising.all():
        raise DataError(
            "indices: must ascend without repeats within each row, got a repeat or a descent at "
            f"position {int(np.argmin(rising)) + 1}. Build matches with from_pairs."
        )
