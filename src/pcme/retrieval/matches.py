"""Matches: the relation τ, which gallery items are relevant to which query.

A query may have many relevant items, and every loss, metric and analysis allows for it; nothing
assumes that item i answers query i. The relation is kept as sparse rows (CSR), so 5,000
images against 25,000 captions cost what their matches cost, not 125 million cells.

Paper: §3.1 (τ), §4.1.1 (plausible matches: Hamming distance of label vectors at most ζ).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Int, Int64
from numpy.typing import ArrayLike

from pcme.errors import DataError, ShapeError
from pcme.retrieval.blocks import row_blocks
from pcme.retrieval.checks import check_rows, checked_ids, checked_index, checked_shape
from pcme.retrieval.labels import (
    UNSAID,
    binary_labels,
    checked_radius,
    checked_statements,
    class_codes,
    hamming_factors,
    satisfied,
)


@dataclass(frozen=True, eq=False, repr=False)
class Matches:
    """The relevant items of every query: `indices[indptr[q]:indptr[q + 1]]` is τ(q), ascending. Paper: §3.1.

    >>> matches = Matches.from_classes(["wren", "jay"], ["jay", "wren", "jay"])
    >>> matches
    Matches(2 queries, 3 gallery items, 3 pairs)
    >>> matches.counts
    array([1, 2])
    >>> matches.T.dense().astype(int)
    array([[0, 1],
           [1, 0],
           [0, 1]])
    """

    indptr: Int64[np.ndarray, " starts"]
    indices: Int[np.ndarray, " pairs"]
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        shape = checked_shape(self.shape)
        indptr, indices = np.asarray(self.indptr, np.int64), np.asarray(self.indices)
        check_rows(indptr, indices, shape)  # before narrowing, which would wrap a wrong id
        indices = indices.astype(_index_dtype(shape[1]), copy=False)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "indptr", _frozen(indptr))
        object.__setattr__(self, "indices", _frozen(indices))

    @classmethod
    def from_pairs(cls, query_index: ArrayLike, gallery_index: ArrayLike, shape: tuple[int, int]) -> "Matches":
        """The relation of the pairs (query_index[i], gallery_index[i]); repeats count once.

        >>> Matches.from_pairs([1, 0, 1, 1], [2, 0, 0, 2], shape=(2, 3)).dense().astype(int)
        array([[1, 0, 0],
               [1, 0, 1]])
        """
        queries, gallery = checked_shape(shape)
        rows = checked_index(query_index, queries, "query_index")
        columns = checked_index(gallery_index, gallery, "gallery_index")
        if len(rows) != len(columns):
            raise ShapeError(
                "query_index and gallery_index: must be equally long, got "
                f"{len(rows)} and {len(columns)}. Give one gallery index per query index."
            )
        rows, columns = _sorted_pairs(rows, columns, gallery)
        return cls(_starts(np.bincount(rows, minlength=queries)), columns, (queries, gallery))

    @classmethod
    def from_classes(cls, query_classes: ArrayLike, gallery_classes: ArrayLike) -> "Matches":
        """The relation "same class"; classes are integers or strings. Paper: §4.1.1 (CUB Captions).

        >>> Matches.from_classes([3, 5], [5, 5, 3]).dense().astype(int)
        array([[0, 0, 1],
               [1, 1, 0]])
        """
        query_codes, gallery_codes = class_codes(query_classes, gallery_classes)
        sizes = np.bincount(gallery_codes, minlength=query_codes.max(initial=0) + 1)
        members = np.argsort(gallery_codes, kind="stable")  # ascending ids within each class
        counts = sizes[query_codes]
        positions = _spans(_starts(sizes)[query_codes], counts)
        return cls(_starts(counts), members[positions], (len(query_codes), len(gallery_codes)))

    @classmethod
    def from_labels(cls, query_labels: ArrayLike, gallery_labels: ArrayLike, within: int) -> "Matches":
        """The plausible matches: pairs whose binary labels differ in at most `within` (ζ) places. Paper: §4.1.1, §C.1.

        >>> Matches.from_labels([[1, 0, 0]], [[1, 0, 0], [1, 1, 0], [0, 1, 0]], within=1).dense()
        array([[ True,  True, False]])
        """
        left, right = hamming_factors(
            binary_labels(query_labels, "query_labels"), binary_labels(gallery_labels, "gallery_labels")
        )
        radius = checked_radius(within)
        blocks = row_blocks(len(left), row_bytes=5 * right.shape[1])
        return cls._from_masks((left[rows] @ right <= radius for rows in blocks), right.shape[1])

    @classmethod
    def from_facts(cls, said: ArrayLike, facts: ArrayLike) -> "Matches":
        """The items that satisfy all a query says: `said` [q,a], `facts` [g,a] >= 0; anything satisfies UNSAID.

        >>> Matches.from_facts([[2, UNSAID], [2, 1]], [[2, 0], [2, 1], [5, 1]]).dense().astype(int)
        array([[1, 1, 0],
               [0, 1, 0]])
        """
        queries, items = (checked_statements(said, "said", UNSAID), checked_statements(facts, "facts", 0))
        if queries.shape[1] != items.shape[1]:
            raise ShapeError(
                f"said and facts: must have the same attributes, got {queries.shape[1]} and {items.shape[1]} columns."
            )
        if queries.shape[1] == 1 and queries.min(initial=0) >= 0:
            return cls.from_classes(queries[:, 0], items[:, 0])
        return cls._from_masks(satisfied(queries, items), len(items))

    @classmethod
    def from_dense(cls, matrix: ArrayLike) -> "Matches":
        """The relation that holds where a boolean matrix [Q,G] is true.

        >>> Matches.from_dense([[True, False], [True, True]]).counts
        array([1, 2])
        """
        mask = np.asarray(matrix)
        if mask.ndim != 2 or 0 in mask.shape:
            raise ShapeError(
                f"match matrix: needs two dimensions, none of size 0, got shape {mask.shape}. "
                "Give one row per query and one column per gallery item."
            )
        if mask.dtype != np.bool_:
            raise DataError(f"match matrix: must be boolean, got {mask.dtype}. Compare it, as in matrix > 0.")
        blocks = row_blocks(len(mask), row_bytes=5 * mask.shape[1])
        return cls._from_masks((mask[rows] for rows in blocks), mask.shape[1])

    @classmethod
    def _from_masks(cls, masks: Iterable[Bool[np.ndarray, "_ g"]], gallery: int) -> "Matches":
        kind = _index_dtype(gallery)
        rows = [np.flatnonzero(row).astype(kind) for mask in masks for row in mask]
        counts = np.array([len(row) for row in rows])
        return cls(_starts(counts), np.concatenate(rows), (len(rows), gallery))

    @property
    def counts(self) -> Int64[np.ndarray, " q"]:
        """The number of relevant items per query, R = |τ(q)|."""
        return np.diff(self.indptr)

    @property
    def answerable(self) -> Bool[np.ndarray, " q"]:
        """Which queries have any relevant item; metrics are NaN for the others."""
        return self.counts > 0

    @property
    def T(self) -> "Matches":  # noqa: N802 - as in numpy
        """The same relation with gallery items as queries: i2t becomes t2i."""
        rows = np.repeat(np.arange(len(self)), self.counts)
        return Matches.from_pairs(self.indices, rows, self.shape[::-1])

    def dense(self, rows: slice | None = None) -> Bool[np.ndarray, "q g"]:
        """The boolean matrix [Q,G], or some rows of it."""
        part = self if rows is None else self[rows]
        matrix = np.zeros(part.shape, np.bool_)
        matrix[np.repeat(np.arange(len(part)), part.counts), part.indices] = True
        return matrix

    def hits(self, ids: ArrayLike, first_row: int = 0) -> Bool[np.ndarray, "q k"]:
        """Whether each ranked id [q,k] is relevant; row i of `ids` is of query first_row + i.

        >>> Matches.from_pairs([0, 0], [2, 4], shape=(1, 5)).hits([[4, 1, 2]])
        array([[ True, False,  True]])
        """
        ranked = checked_ids(ids, self.shape, first_row)
        hits = np.empty(ranked.shape, np.bool_)
        member = np.zeros(self.shape[1], np.bool_)
        for row, matched in enumerate(self.rows(first_row, len(ranked))):  # mark, read and clear
            member[matched] = True
            hits[row] = member[ranked[row]]
            member[matched] = False
        return hits

    def rows(self, first: int = 0, count: int | None = None) -> Iterator[Int[np.ndarray, " r"]]:
        """τ(q) of `count` queries from `first` on (all the rest by default), one array each.

        >>> [row.tolist() for row in Matches.from_dense([[True, True], [False, False]]).rows()]
        [[0, 1], []]
        """
        stop = len(self) if count is None else first + count
        starts = self.indptr[first : stop + 1].tolist()
        return (self.indices[start:end] for start, end in pairwise(starts))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | ArrayLike) -> "Matches":
        picked = np.arange(len(self))[rows if isinstance(rows, slice) else np.asarray(rows)]
        if picked.ndim != 1:
            raise ShapeError(
                f"matches: are indexed by a slice or a list of queries, got {rows!r}. "
                "Write matches[[0]] or matches[0:1] for one query."
            )
        counts = self.counts[picked]
        pairs = self.indices[_spans(self.indptr[picked], counts)]
        return Matches(_starts(counts), pairs, (len(picked), self.shape[1]))

    def __iter__(self) -> Iterator[Int[np.ndarray, " r"]]:
        return self.rows()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Matches)
            and self.shape == other.shape
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    def __repr__(self) -> str:
        queries, gallery = self.shape
        return f"Matches({queries} queries, {gallery} gallery items, {len(self.indices)} pairs)"


def _index_dtype(gallery: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if gallery <= np.iinfo(np.int32).max else np.int64


def _frozen(array: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    view = array.view()
    view.flags.writeable = False
    return view


def _starts(counts: Int[np.ndarray, " q"]) -> Int64[np.ndarray, " starts"]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _spans(starts: Int[np.ndarray, " q"], counts: Int[np.ndarray, " q"]) -> Int64[np.ndarray, " n"]:
    """The ranges starts[i] .. starts[i] + counts[i] - 1, one after the other."""
    ends = _starts(counts)
    return np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])


def _sorted_pairs(
    rows: Int64[np.ndarray, " n"], columns: Int64[np.ndarray, " n"], gallery: int
) -> tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]:
    """The distinct pairs, by row, then column. np.unique hashes: 20 times slower for 20 M pairs."""
    keys = rows * gallery
    keys += columns
    keys.sort()
    first = np.concatenate([keys[:1] >= 0, keys[1:] > keys[:-1]])
    rows, columns = np.divmod(keys if first.all() else keys[first], gallery)
    return rows, columns
