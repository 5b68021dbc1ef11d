"""Ranking: the gallery in order of preference for every query, with a stated rule for ties.

Higher scores come first; **equal scores go to the lower id**, always, so that two machines, two block sizes, or a
truncated and a full ranking never disagree. NaN, which has no order, and +inf, which only an overflow produces, are
errors; -inf is allowed: it is the log of probability 0. Paper: §4.1.1 (all its metrics are functions of this order).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64, UInt64
from numpy.typing import ArrayLike
from torch import Tensor

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.retrieval.blocks import each_block, read_rows

_KEYS_AT_ONCE = 2**18  # 2 MiB, a core's own cache: larger pieces spend their time on page faults
_LOW_WORD = np.uint64(2**32 - 1)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ranking:
    """The best `depth` gallery items of every query: ids and scores [Q,k], best first, on the CPU.

    Rows are sorted by score, descending; ties go to the lower id. `gallery_size` says how many items were ranked, so
    that a metric can tell a complete ranking from a truncated one.

    >>> ranking = Ranking.from_scores([[0.1, 0.7, 0.7, 0.2]], k=3)
    >>> ranking
    Ranking(1 queries, top 3 of 4)
    >>> ranking.ids
    tensor([[1, 2, 3]])
    """

    ids: Int64[Tensor, "q k"]
    scores: Float[Tensor, "q k"]
    gallery_size: int | None

    def __init__(self, ids: ArrayLike, scores: ArrayLike, gallery_size: int | None = None) -> None:
        object.__setattr__(self, "ids", _checked_ids(ids, gallery_size))
        object.__setattr__(self, "scores", _checked_order(scores, self.ids.shape))
        object.__setattr__(self, "gallery_size", gallery_size)

    @classmethod
    def from_scores(cls, scores: ArrayLike, k: int | None = None) -> "Ranking":
        """The ranking of a score matrix [Q,G], cut to the best `k` (all G if None or larger).

        >>> Ranking.from_scores([[-0.0, 0.0, 1.0]]).ids
        tensor([[2, 0, 1]])
        """
        values = as_scores(scores)
        depth = values.shape[1] if k is None else min(checked_k(k), values.shape[1])
        ids = np.empty((len(values), depth), np.int64)
        best = np.empty(ids.shape, values.dtype)

        def fill(rows: slice) -> None:
            block = read_rows(values, rows)
            ids[rows] = top_ids(block, depth)
            best[rows] = np.stack([row.take(picked) for row, picked in zip(block, ids[rows], strict=True)])

        each_block(fill, len(values), row_bytes=TOP_IDS_BYTES * values.shape[1])
        return cls(ids, best, values.shape[1])

    @classmethod
    def cat(cls, rankings: Sequence["Ranking"]) -> "Ranking":
        """One ranking of all the queries of several, in the order given; they share one gallery.

        >>> part = Ranking([[1, 0]], [[0.9, 0.2]], gallery_size=5)
        >>> Ranking.cat([part, part])
        Ranking(2 queries, top 2 of 5)
        """
        kinds = {(ranking.depth, ranking.gallery_size) for ranking in rankings}
        if len(kinds) != 1:
            raise ShapeError(
                "rankings: must have one depth and one gallery to be joined, got (depth, gallery size) "
                f"{sorted(kinds, key=str)}. Rank all of them with the same k."
            )
        ids = torch.cat([ranking.ids for ranking in rankings])
        scores = torch.cat([ranking.scores for ranking in rankings])
        return cls(ids, scores, rankings[0].gallery_size)

    @property
    def depth(self) -> int:
        """How many items are kept per query, k."""
        return self.ids.shape[1]

    def __len__(self) -> int:
        return self.ids.shape[0]

    def __getitem__(self, rows: slice | ArrayLike) -> "Ranking":
        index = rows if isinstance(rows, slice) else np.asarray(rows)
        if not isinstance(index, slice) or (index.step or 1) < 0:  # torch knows no negative steps
            index = np.arange(len(self))[index].copy()
        return Ranking(self.ids[index], self.scores[index], self.gallery_size)

    def __repr__(self) -> str:
        size = "an unknown number" if self.gallery_size is None else self.gallery_size
        return f"Ranking({len(self)} queries, top {self.depth} of {size})"


def as_scores(scores: ArrayLike) -> Float[np.ndarray, "q g"]:
    """The score matrix as float32 (halves too) or float64 (integers too), checked: two dimensions, no NaN, no +inf."""
    values = _floats(scores)
    if values.ndim != 2 or 0 in values.shape:
        raise ShapeError(
            f"scores: need two dimensions, none of size 0, got shape {values.shape}. Give one row per query and one "
            "column per gallery item."
        )
    highest = values.max(axis=1)  # NaN wins a max, so one pass finds both kinds of bad value
    if not (highest < np.inf).all():
        row = int(np.argmin(highest < np.inf))
        column = int(np.argmin(values[row] < np.inf))
        raise DataError(
            f"scores: must not be NaN or +inf, got {values[row, column]} at row {row}, column "
            f"{column}. Look for an overflow or a division by zero in the model or the score."
        )
    return values


def checked_k(k: int) -> int:
    """`k`, or a ConfigError when it is below 1."""
    if k < 1:
        raise ConfigError(f"k: must be at least 1, got {k}. Ask for 1 or more items.")
    return k


TOP_IDS_BYTES = 24
"""What `top_ids` needs per score: a 64-bit key, a 32-bit word and its mask, and the ids."""


def top_ids(scores: Float[np.ndarray, "q g"], k: int) -> Int64[np.ndarray, "q k"]:
    """The ids of the `k` highest of checked scores in each row, best first, ties to the lower id.

    >>> top_ids(np.array([[0.5, 2.0, 0.5]]), 2)
    array([[1, 0]])
    """
    if scores.dtype == np.float32:
        step = max(1, _KEYS_AT_ONCE // scores.shape[1])
        starts = range(0, len(scores), step)
        return np.concatenate([_top_by_key(scores[i : i + step], k) for i in starts])
    return np.stack([_top_of_row(-row, k) for row in scores.astype(np.float64, copy=False)])


def _top_by_key(scores: Float32[np.ndarray, "q g"], k: int) -> Int64[np.ndarray, "q k"]:
    keys = order_keys(scores)
    if k < keys.shape[1]:
        keys.partition(k - 1, axis=1)
        keys = keys[:, :k].copy()
    keys.sort(axis=1)
    return ids_of_keys(keys)


def order_keys(scores: Float32[np.ndarray, "q g"]) -> UInt64[np.ndarray, "q g"]:
    """One integer per score whose ascending order is the ranking: the score above, the id below.

    IEEE floats of one sign order like their bits. Flipping the 31 lower bits of the positive ones makes the whole line
    descend, and integers sort faster than an argsort, ties included.

    >>> ids_of_keys(np.sort(order_keys(np.array([[0.5, 2.0, 0.5]], np.float32))))
    array([[1, 0, 2]])
    """
    bits = (scores + np.float32(0)).view(np.uint32)  # -0.0 + 0.0 = 0.0: the two zeros must tie
    positive = ~(bits.view(np.int32) >> 31).view(np.uint32)
    bits ^= positive & np.uint32(2**31 - 1)
    keys = bits.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.arange(scores.shape[1], dtype=np.uint64)
    return keys


def ids_of_keys(keys: UInt64[np.ndarray, "*n"]) -> Int64[np.ndarray, "*n"]:
    """The ids in the keys of `order_keys`, whatever has become of their order."""
    return (keys & _LOW_WORD).view(np.int64)


def _top_of_row(cost: Float64[np.ndarray, " g"], k: int) -> Int64[np.ndarray, " k"]:
    """The ids of the `k` lowest costs; every item that ties with the k-th is a candidate."""
    if k < len(cost):
        candidates = np.flatnonzero(cost <= np.partition(cost, k - 1)[k - 1])
        best: Int64[np.ndarray, " k"] = candidates[_stable_argsort(cost[candidates])[:k]]
        return best
    return _stable_argsort(cost)


def _stable_argsort(values: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """argsort with ties in order of position: the fast unstable one unless there are ties."""
    order = np.argsort(values)
    ordered = values[order]
    return np.argsort(values, kind="stable") if (ordered[1:] == ordered[:-1]).any() else order


def _floats(scores: ArrayLike) -> Float[np.ndarray, "..."]:
    if isinstance(scores, Tensor):
        half = scores.dtype in (torch.bfloat16, torch.float16)
        scores = (scores.float() if half else scores).detach().cpu().numpy()
    values = np.asarray(scores)
    if values.dtype.kind not in "biuf":
        raise DataError(f"scores: must be numbers, got {values.dtype}. Give a float matrix.")
    if values.dtype in (np.float32, np.float64):
        return values
    return values.astype(np.float32 if values.dtype == np.float16 else np.float64)


def _tensor(values: ArrayLike) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))


def _checked_ids(ids: ArrayLike, gallery_size: int | None) -> Int64[Tensor, "q k"]:
    tensor = _tensor(ids)
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise ShapeError(
            f"ranked ids: need two dimensions, none of size 0, got shape {tuple(tensor.shape)}. Give one row of "
            "gallery ids per query."
        )
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise DataError(f"ranked ids: must be integers, got {tensor.dtype}. Convert them.")
    tensor = tensor.long()
    lowest, highest = (int(end) for end in torch.aminmax(tensor))
    limit = highest + 1 if gallery_size is None else gallery_size
    if lowest < 0 or highest >= limit or tensor.shape[1] > limit:
        raise DataError(
            f"ranked ids: must be distinct and from 0 to {limit - 1}, got {tensor.shape[1]} per query, from {lowest} "
            f"to {highest}. Check gallery_size."
        )
    return tensor


def _checked_order(scores: ArrayLike, shape: torch.Size) -> Float[Tensor, "q k"]:
    tensor = _tensor(scores)
    if tensor.shape != shape:
        raise ShapeError(
            f"ranking: needs one score per id, got ids {tuple(shape)} and scores {tuple(tensor.shape)}. Give both as "
            "[queries, k]."
        )
    tensor = tensor if tensor.is_floating_point() else tensor.double()
    falling = (tensor[:, 1:] <= tensor[:, :-1]).all() and (tensor[:, 0] < torch.inf).all()
    if not falling:  # NaN compares false, so it ends here too
        raise DataError(
            "scores of a ranking: must fall from left to right, without NaN or +inf, got a row that does not. Build it "
            "with Ranking.from_scores."
        )
    return tensor
