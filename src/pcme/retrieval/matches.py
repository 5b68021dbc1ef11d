"""Matches: the relation τ that says which gallery items answer which query.

One query may have many right answers, and every loss, metric and analysis here allows for it;
nothing assumes that item i answers query i. The relation is kept as sparse rows (CSR), so 5,000
images against 25,000 captions cost what their matches cost, not 125 million cells.

Paper: §3.1 (τ), §4.1.1 (plausible matches: Hamming distance of label vectors at most ζ).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float32, Int, Int64
from numpy.typing import ArrayLike

from pcme.errors import ConfigError, DataError, ShapeError

__all__ = ["UNSAID", "Matches", "binary_labels", "checked_radius", "hamming_factors"]

UNSAID = -1
"""In a statement: the attribute is not spoken of, so any value satisfies it."""

BLOCK_BYTES = 16 * 2**20
"""Temporaries of one block of rows: small enough to stay in cache, large enough to hide Python."""


@dataclass(frozen=True, eq=False, repr=False)
class Matches:
    """The right answers of every query: `indices[indptr[q]:indptr[q + 1]]` is τ(q), ascending.

    Paper: §3.1.

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
        shape = _checked_shape(self.shape)
        indptr, indices = np.asarray(self.indptr, np.int64), np.asarray(self.indices)
        _check_rows(indptr, indices, shape)  # before narrowing, which would wrap a wrong id
        indices = indices.astype(_index_dtype(shape[1]), copy=False)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "indptr", _frozen(indptr))
        object.__setattr__(self, "indices", _frozen(indices))

    @classmethod
    def from_pairs(
        cls, query_index: ArrayLike, gallery_index: ArrayLike, shape: tuple[int, int]
    ) -> "Matches":
        """The relation of the pairs (query_index[i], gallery_index[i]); repeats count once.

        >>> Matches.from_pairs([1, 0, 1, 1], [2, 0, 0, 2], shape=(2, 3)).dense().astype(int)
        array([[1, 0, 0],
               [1, 0, 1]])
        """
        queries, gallery = _checked_shape(shape)
        rows = _checked_index(query_index, queries, "query_index")
        columns = _checked_index(gallery_index, gallery, "gallery_index")
        if len(rows) != len(columns):
            raise ShapeError(
                "query_index and gallery_index must be equally long - got "
                f"{len(rows)} and {len(columns)} - give one gallery index per query index"
            )
        rows, columns = _sorted_pairs(rows, columns, gallery)
        return cls(_starts(np.bincount(rows, minlength=queries)), columns, (queries, gallery))

    @classmethod
    def from_classes(cls, query_classes: ArrayLike, gallery_classes: ArrayLike) -> "Matches":
        """The relation "same class"; classes are integers or strings.

        Paper: §4.1.1 (CUB Captions: any caption of the same class is a right answer).

        >>> Matches.from_classes([3, 5], [5, 5, 3]).dense().astype(int)
        array([[0, 0, 1],
               [1, 1, 0]])
        """
        query_codes, gallery_codes = _class_codes(query_classes, gallery_classes)
        sizes = np.bincount(gallery_codes, minlength=query_codes.max(initial=0) + 1)
        members = np.argsort(gallery_codes, kind="stable")  # ascending ids within each class
        counts = sizes[query_codes]
        positions = _spans(_starts(sizes)[query_codes], counts)
        return cls(_starts(counts), members[positions], (len(query_codes), len(gallery_codes)))

    @classmethod
    def from_labels(
        cls, query_labels: ArrayLike, gallery_labels: ArrayLike, within: int
    ) -> "Matches":
        """The plausible matches: pairs whose binary labels differ in at most `within` (ζ) places.

        Paper: §4.1.1, §C.1.

        >>> Matches.from_labels([[1, 0, 0]], [[1, 0, 0], [1, 1, 0], [0, 1, 0]], within=1).dense()
        array([[ True,  True, False]])
        """
        left, right = hamming_factors(
            binary_labels(query_labels, "query_labels"),
            binary_labels(gallery_labels, "gallery_labels"),
        )
        radius = checked_radius(within)
        blocks = _row_blocks(len(left), row_bytes=5 * right.shape[1])
        return cls._from_masks((left[rows] @ right <= radius for rows in blocks), right.shape[1])

    @classmethod
    def from_facts(cls, said: ArrayLike, facts: ArrayLike) -> "Matches":
        """The items that satisfy all a query says: `said` [q,a], `facts` [g,a], integers >= 0.

        UNSAID in `said` is satisfied by anything. With one attribute that all queries name this is
        `from_classes`.

        >>> Matches.from_facts([[2, UNSAID], [2, 1]], [[2, 0], [2, 1], [5, 1]]).dense().astype(int)
        array([[1, 1, 0],
               [0, 1, 0]])
        """
        queries, items = (
            _checked_statements(said, "said", UNSAID),
            _checked_statements(facts, "facts", 0),
        )
        if queries.shape[1] != items.shape[1]:
            raise ShapeError(
                "said and facts must speak of the same attributes - got "
                f"{queries.shape[1]} and {items.shape[1]} columns"
            )
        if queries.shape[1] == 1 and queries.min(initial=0) >= 0:
            return cls.from_classes(queries[:, 0], items[:, 0])
        return cls._from_masks(_satisfied(queries, items), len(items))

    @classmethod
    def from_dense(cls, matrix: ArrayLike) -> "Matches":
        """The relation that holds where a boolean matrix [Q,G] is true.

        >>> Matches.from_dense([[True, False], [True, True]]).counts
        array([1, 2])
        """
        mask = np.asarray(matrix)
        if mask.ndim != 2 or 0 in mask.shape:
            raise ShapeError(
                f"a match matrix needs two dimensions, none of size 0 - got shape {mask.shape} - "
                "give one row per query and one column per gallery item"
            )
        if mask.dtype != np.bool_:
            raise DataError(
                f"a match matrix must be boolean - got {mask.dtype} - compare it, as in matrix > 0"
            )
        blocks = _row_blocks(len(mask), row_bytes=5 * mask.shape[1])
        return cls._from_masks((mask[rows] for rows in blocks), mask.shape[1])

    @classmethod
    def _from_masks(cls, masks: Iterable[Bool[np.ndarray, "_ g"]], gallery: int) -> "Matches":
        kind = _index_dtype(gallery)
        rows = [np.flatnonzero(row).astype(kind) for mask in masks for row in mask]
        counts = np.array([len(row) for row in rows])
        return cls(_starts(counts), np.concatenate(rows), (len(rows), gallery))

    @property
    def counts(self) -> Int64[np.ndarray, " q"]:
        """The number of right answers of each query, R = |τ(q)|."""
        return np.diff(self.indptr)

    @property
    def answerable(self) -> Bool[np.ndarray, " q"]:
        """Which queries have any right answer; metrics are NaN for the others."""
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
        """Whether each ranked id [q,k] is a right answer; row i of `ids` is of query first_row + i.

        One boolean row of the gallery is marked, read and cleared per query, so memory is G bytes
        and time is linear in the ids read, whatever the gallery's size.

        >>> Matches.from_pairs([0, 0], [2, 4], shape=(1, 5)).hits([[4, 1, 2]])
        array([[ True, False,  True]])
        """
        ranked = _checked_ids(ids, self.shape, first_row)
        found = np.empty(ranked.shape, np.bool_)
        member = np.zeros(self.shape[1], np.bool_)
        for row, matched in enumerate(self.rows(first_row, len(ranked))):
            member[matched] = True
            found[row] = member[ranked[row]]
            member[matched] = False
        return found

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
                f"matches are indexed by a slice or a list of queries - got {rows!r} - "
                "write matches[[0]] or matches[0:1] for one query"
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


def binary_labels(labels: ArrayLike, name: str) -> Float32[np.ndarray, "n l"]:
    """The label vectors as 0.0 and 1.0, checked; `name` is what an error calls them.

    >>> binary_labels([[True, False]], "labels")
    array([[1., 0.]], dtype=float32)
    """
    matrix = np.asarray(labels)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ShapeError(
            f"{name} need two dimensions, none of size 0 - got shape {matrix.shape} - "
            "give one row of 0s and 1s per item"
        )
    if not np.all((matrix == 0) | (matrix == 1)):
        raise DataError(
            f"{name} must be binary - found {_first_not_binary(matrix)!r} ({matrix.dtype}) - "
            "give 1 where the item has the label and 0 elsewhere"
        )
    return matrix.astype(np.float32)


def hamming_factors(
    queries: Float32[np.ndarray, "q _"], gallery: Float32[np.ndarray, "g _"]
) -> tuple[Float32[np.ndarray, "q f"], Float32[np.ndarray, "f g"]]:
    """Two matrices whose product is the Hamming distance of every query to every gallery item.

    |a - b| = -2 <a, b> + |a| + |b| for binary a, b: an inner product of l + 2 numbers, and exact in
    float32 up to 2^23 labels. No Q x G x L array ever exists.

    >>> left, right = hamming_factors(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
    >>> left @ right
    array([[0., 2.],
           [2., 0.]], dtype=float32)
    """
    if queries.shape[1] != gallery.shape[1]:
        raise ShapeError(
            "query and gallery label vectors must be equally wide - got "
            f"{queries.shape[1]} and {gallery.shape[1]} labels - use one label set for both"
        )
    left = np.column_stack([-2 * queries, queries.sum(1), np.ones_like(queries[:, 0])])
    right = np.column_stack([gallery, np.ones_like(gallery[:, 0]), gallery.sum(1)])
    return left, np.ascontiguousarray(right.T)


def checked_radius(within: int) -> int:
    """`within` (ζ), or a ConfigError when it is not a whole number of labels.

    >>> checked_radius(2)
    2
    """
    if int(within) != within or within < 0:
        raise ConfigError(
            f"within must be a whole number >= 0 - got {within} - the paper uses 0, 1, 2"
        )
    return int(within)


def _checked_statements(values: ArrayLike, name: str, least: int) -> Int64[np.ndarray, "n a"]:
    rows = np.asarray(values)
    if rows.ndim != 2 or not np.issubdtype(rows.dtype, np.integer) or rows.shape[1] == 0:
        raise ShapeError(
            f"{name} must be integers with a row per item and a column per attribute - got "
            f"{rows.dtype} of shape {rows.shape}"
        )
    if rows.min(initial=0) < least:
        raise DataError(f"{name} must be at least {least} everywhere - got {rows.min()}")
    return rows.astype(np.int64, copy=False)


def _satisfied(
    said: Int64[np.ndarray, "q a"], facts: Int64[np.ndarray, "g a"]
) -> Iterator[Bool[np.ndarray, "_ g"]]:
    """Blocks of the matrix "item g satisfies all that query q says".

    Equal statements share one row of work: captions that say little repeat each other.
    """
    distinct, which = np.unique(said, axis=0, return_inverse=True)
    columns = np.ascontiguousarray(facts.T)
    for rows in _row_blocks(len(said), row_bytes=len(facts)):
        needed, position = np.unique(which[rows], return_inverse=True)
        mask = np.ones((len(needed), len(facts)), np.bool_)
        for row, statement in zip(mask, distinct[needed], strict=True):
            for attribute in np.flatnonzero(statement != UNSAID):
                row &= columns[attribute] == statement[attribute]
        yield mask[position]


def _index_dtype(gallery: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if gallery <= np.iinfo(np.int32).max else np.int64


def _row_blocks(rows: int, *, row_bytes: int) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // row_bytes)
    return (slice(start, start + step) for start in range(0, rows, step))


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


def _class_codes(
    query_classes: ArrayLike, gallery_classes: ArrayLike
) -> tuple[Int64[np.ndarray, " q"], Int64[np.ndarray, " g"]]:
    queries = _checked_classes(query_classes, "query_classes")
    gallery = _checked_classes(gallery_classes, "gallery_classes")
    if (queries.dtype == np.int64) != (gallery.dtype == np.int64):
        raise DataError(
            "query_classes and gallery_classes must be of one kind - got "
            f"{queries.dtype} and {gallery.dtype} - give both as integers or both as strings"
        )
    codes = np.unique(np.concatenate([queries, gallery]), return_inverse=True)[1].astype(np.int64)
    return codes[: len(queries)], codes[len(queries) :]


def _checked_classes(classes: ArrayLike, name: str) -> np.ndarray:
    array = np.asarray(classes)
    if array.ndim != 1 or array.size == 0:
        raise ShapeError(
            f"{name} must be a list with at least one class - got shape {array.shape} - "
            "give one class per item"
        )
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        return array.astype(np.str_)
    if array.dtype.kind not in "biuUS":
        raise DataError(
            f"{name} must be integers or strings - got {array.dtype} - convert them first"
        )
    return array.astype(np.int64) if array.dtype.kind in "biu" else array


def _checked_shape(shape: tuple[int, int]) -> tuple[int, int]:
    if len(shape) != 2 or min(shape) < 1:
        raise ShapeError(
            f"matches need at least one query and one gallery item - got shape {tuple(shape)} - "
            "give (queries, gallery items)"
        )
    return int(shape[0]), int(shape[1])


def _checked_index(index: ArrayLike, size: int, name: str) -> Int64[np.ndarray, " n"]:
    array = np.asarray(index)
    if array.ndim != 1:
        raise ShapeError(f"{name} must be a list - got shape {array.shape} - flatten it first")
    if array.size and array.dtype.kind not in "iu":
        raise DataError(f"{name} must hold integers - got {array.dtype} - convert it first")
    _check_range(array, size, name)
    return array.astype(np.int64)


def _checked_ids(ids: ArrayLike, shape: tuple[int, int], first_row: int) -> Int[np.ndarray, "q k"]:
    array = np.asarray(ids)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise ShapeError(
            f"ranked ids must be an integer matrix - got {array.dtype} of shape {array.shape} - "
            "give one row of gallery ids per query"
        )
    if not 0 <= first_row <= shape[0] - len(array):
        raise ShapeError(
            f"ranked ids must belong to the {shape[0]} queries of these matches - got rows "
            f"{first_row} to {first_row + len(array) - 1} - rank the queries these matches are of"
        )
    _check_range(array, shape[1], "ranked ids")
    return array


def _check_range(array: np.ndarray, size: int, name: str) -> None:
    if array.size and not (array.min() >= 0 and array.max() < size):
        wrong = array[(array < 0) | (array >= size)][0]
        raise DataError(
            f"{name} must lie in 0..{size - 1} - found {wrong} - check the shape or the ids"
        )


def _check_rows(
    indptr: Int64[np.ndarray, " starts"],
    indices: Int[np.ndarray, " pairs"],
    shape: tuple[int, int],
) -> None:
    spans = indptr.shape == (shape[0] + 1,) and indptr[0] == 0 and indptr[-1] == len(indices)
    if not spans or np.any(np.diff(indptr) < 0):
        raise DataError(
            f"indptr must rise from 0 to {len(indices)} in {shape[0] + 1} steps - got "
            f"{len(indptr)} values - build matches with from_pairs"
        )
    _check_range(indices, shape[1], "indices")
    rising = np.asarray(indices[1:] > indices[:-1])
    inner = indptr[(indptr > 0) & (indptr < len(indices))]
    rising[inner - 1] = True  # a new row may start anywhere
    if not rising.all():
        raise DataError(
            "indices must ascend without repeats within each row - got a repeat or a descent at "
            f"position {int(np.argmin(rising)) + 1} - build matches with from_pairs"
        )


def _first_not_binary(matrix: np.ndarray) -> object:
    return matrix[(matrix != 0) & (matrix != 1)].flat[0].item()
