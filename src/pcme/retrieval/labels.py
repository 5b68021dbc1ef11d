"""Labels: classes, binary label vectors and statements, checked and compared in blocks. Paper: §4.1.1 (ζ)."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float32, Int64, Shaped
from numpy.typing import ArrayLike

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.retrieval.blocks import row_blocks

UNSAID = -1
"""In a statement: the attribute is not spoken of, so any value satisfies it."""


def binary_labels(labels: ArrayLike, name: str) -> Float32[np.ndarray, "n l"]:
    """The label vectors as 0.0 and 1.0, checked; `name` is what an error calls them."""
    matrix = np.asarray(labels)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ShapeError(
            f"{name}: need two dimensions, none of size 0, got shape {matrix.shape}. Give each item a row of 0s and 1s."
        )
    wrong = matrix[(matrix != 0) & (matrix != 1)]
    if wrong.size:
        raise DataError(
            f"{name}: must be binary, got {wrong.flat[0].item()!r} ({matrix.dtype}). Give 1 where the item has the "
            "label and 0 elsewhere."
        )
    return matrix.astype(np.float32)


def hamming_factors(
    queries: Float32[np.ndarray, "q _"], gallery: Float32[np.ndarray, "g _"]
) -> tuple[Float32[np.ndarray, "q f"], Float32[np.ndarray, "f g"]]:
    """Two matrices whose product is the Hamming distance of every query to every gallery item.

    |a - b| = -2 <a, b> + |a| + |b| for binary a, b: no Q x G x L array, and exact in float32 up to 2^23 labels.

    >>> left, right = hamming_factors(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
    >>> left @ right
    array([[0., 2.],
           [2., 0.]], dtype=float32)
    """
    require_equally_wide(queries, gallery)
    left = np.column_stack([-2 * queries, queries.sum(1), np.ones_like(queries[:, 0])])
    right = np.column_stack([gallery, np.ones_like(gallery[:, 0]), gallery.sum(1)])
    return left, np.ascontiguousarray(right.T)


def require_equally_wide(queries: Float32[np.ndarray, "q _"], gallery: Float32[np.ndarray, "g _"]) -> None:
    """Refuse label vectors of two different label sets."""
    if queries.shape[1] != gallery.shape[1]:
        raise ShapeError(
            f"query and gallery labels: must be equally wide, got {queries.shape[1]} and {gallery.shape[1]} labels. "
            "Use one label set for both."
        )


def checked_radius(within: int) -> int:
    """`within` (ζ), or a ConfigError when it is not a whole number of labels."""
    if int(within) != within or within < 0:
        raise ConfigError(f"within: must be a whole number >= 0, got {within}. The paper uses 0, 1, 2.")
    return int(within)


def class_codes(
    query_classes: ArrayLike, gallery_classes: ArrayLike
) -> tuple[Int64[np.ndarray, " q"], Int64[np.ndarray, " g"]]:
    """Number the classes of both sides alike."""
    queries = _checked_classes(query_classes, "query_classes")
    gallery = _checked_classes(gallery_classes, "gallery_classes")
    if (queries.dtype == np.int64) != (gallery.dtype == np.int64):
        raise DataError(
            f"query_classes and gallery_classes: must be of one kind, got {queries.dtype} and {gallery.dtype}. Give "
            "both as integers or both as strings."
        )
    codes = np.unique(np.concatenate([queries, gallery]), return_inverse=True)[1].astype(np.int64)
    return codes[: len(queries)], codes[len(queries) :]


def _checked_classes(classes: ArrayLike, name: str) -> Shaped[np.ndarray, " n"]:
    array = np.asarray(classes)
    if array.ndim != 1 or array.size == 0:
        raise ShapeError(
            f"{name}: must be a list with at least one class, got shape {array.shape}. Give one class per item."
        )
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        return array.astype(np.str_)
    if array.dtype.kind not in "biuUS":
        raise DataError(f"{name}: must be integers or strings, got {array.dtype}. Convert them.")
    return array.astype(np.int64) if array.dtype.kind in "biu" else array


def checked_statements(values: ArrayLike, name: str, least: int) -> Int64[np.ndarray, "n a"]:
    """Return a row per item and a column per attribute, or raise what is wrong with them."""
    rows = np.asarray(values)
    if rows.ndim != 2 or not np.issubdtype(rows.dtype, np.integer) or rows.shape[1] == 0:
        raise ShapeError(
            f"{name}: must be integers, one row per item and one column per attribute, got {rows.dtype} of shape "
            f"{rows.shape}. Give a matrix of numbers of values."
        )
    if rows.min(initial=0) < least:
        raise DataError(f"{name}: must be at least {least} everywhere, got {rows.min()}. Number the values from 0.")
    return rows.astype(np.int64, copy=False)


def satisfied(said: Int64[np.ndarray, "q a"], facts: Int64[np.ndarray, "g a"]) -> Iterator[Bool[np.ndarray, "_ g"]]:
    """Blocks of the matrix "item g satisfies all that query q says"; equal statements share one row of work."""
    distinct, which = np.unique(said, axis=0, return_inverse=True)
    columns = np.ascontiguousarray(facts.T)
    for rows in row_blocks(len(said), row_bytes=len(facts)):
        needed, position = np.unique(which[rows], return_inverse=True)
        mask = np.ones((len(needed), len(facts)), np.bool_)
        for row, statement in zip(mask, distinct[needed], strict=True):
            for attribute in np.flatnonzero(statement != UNSAID):
                row &= columns[attribute] == statement[attribute]
        yield mask[position]
