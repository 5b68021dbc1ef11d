"""Retrieval metrics, one value per query; the mean, median or histogram is the caller's.

Every function takes a `Ranking` or a score matrix [Q,G], and returns float64 [Q] with **NaN where a
query has no right answer at all** (average with `np.nanmean`, or keep `matches.answerable`). Of
scores only as much is sorted as the metric needs, in blocks of rows: no full ranking ever exists.

Paper: §4.1.1 and §C.1.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int, Int64
from numpy.typing import ArrayLike

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.retrieval.matches import Matches, binary_labels, checked_radius, hamming_factors
from pcme.retrieval.ranking import (
    TOP_IDS_BYTES,
    Ranking,
    as_scores,
    checked_k,
    each_block,
    read_rows,
    top_ids,
)

__all__ = [
    "average_precision",
    "chance",
    "first_rank",
    "map_at_r",
    "median_rank",
    "pmrp",
    "precision",
    "r_precision",
    "recall",
    "share_of_hits",
]

PerQuery: TypeAlias = Float64[np.ndarray, " q"]
"""One value per query."""

Source: TypeAlias = Ranking | Float[np.ndarray, "q g"]
"""What the metrics work on once it is checked: a ranking, or a score matrix without NaN."""

Factors: TypeAlias = tuple[Float32[np.ndarray, "q f"], Float32[np.ndarray, "f m"]]
"""Matrices whose product is the Hamming distance of the labels (`hamming_factors`)."""

Distances: TypeAlias = Float32[np.ndarray, "b m"]
"""Hamming distances of some queries' labels to all gallery labels."""

DISTANCE_BYTES = 64 * 2**20
"""The label distances held at a time by `pmrp`."""


def recall(ranked: Ranking | ArrayLike, matches: Matches, k: int) -> PerQuery:
    """1 where any right answer is among the first `k`, else 0 (Recall@k).

    With classes as matches (CUB Captions) a hit is any item of the query's class.
    Paper: §4.1.1.

    >>> matches = Matches.from_pairs([0, 1], [2, 0], shape=(2, 3))
    >>> recall([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1]], matches, 1)
    array([0., 1.])
    """
    source = _checked(ranked, matches.shape)
    _require_depth(source, checked_k(k), matches.shape[1], f"recall@{k}")
    found = _first_ranks(source, matches, k) <= k
    return np.where(matches.answerable, found, np.nan)


def precision(ranked: Ranking | ArrayLike, matches: Matches, k: int) -> PerQuery:
    """The share of right answers among the first `k` (Precision@k).

    Paper: not reported; the authors' code prints it for CUB Captions.

    >>> precision([[0.1, 0.9, 0.5]], Matches.from_pairs([0], [2], shape=(1, 3)), 2)
    array([0.5])
    """
    source = _checked(ranked, matches.shape)
    _require_depth(source, checked_k(k), matches.shape[1], f"precision@{k}")
    return _from_hits(source, matches, np.full(len(matches), k), share_of_hits)


def r_precision(ranked: Ranking | ArrayLike, matches: Matches) -> PerQuery:
    """The share of right answers among the first R, where R = |τ(q)| is how many there are.

    It is 1 exactly when all right answers come before all wrong ones.
    Paper: §4.1.1.

    >>> r_precision([[0.1, 0.9, 0.5]], Matches.from_pairs([0, 0], [0, 1], shape=(1, 3)))
    array([0.5])
    """
    source = _checked(ranked, matches.shape)
    _require_depth(source, int(matches.counts.max()), matches.shape[1], "R-Precision")
    return _from_hits(source, matches, matches.counts, share_of_hits)


def map_at_r(ranked: Ranking | ArrayLike, matches: Matches) -> PerQuery:
    """(1/R) Σ_{i≤R} P@i rel_i: the precision at each right answer within the first R, over R.

    Paper: §D (Table D.1).
    Relation: at most r_precision, which ignores the order within the first R.

    >>> map_at_r([[0.1, 0.9, 0.5]], Matches.from_pairs([0, 0], [0, 2], shape=(1, 3)))
    array([0.25])
    """
    source = _checked(ranked, matches.shape)
    _require_depth(source, int(matches.counts.max()), matches.shape[1], "MAP@R")
    return _from_hits(source, matches, matches.counts, average_precision)


def median_rank(ranked: Ranking | ArrayLike, matches: Matches) -> PerQuery:
    """The rank, from 1, of each query's first right answer; medR is the median of these values.

    inf where a truncated ranking ends before the first right answer.
    Paper: §4.1.1 (COCO).

    >>> median_rank([[0.1, 0.9, 0.5]], Matches.from_pairs([0, 0], [0, 2], shape=(1, 3)))
    array([2.])
    """
    source = _checked(ranked, matches.shape)
    ranks = _first_ranks(source, matches, matches.shape[1])
    return np.where(matches.answerable, ranks, np.nan)


def pmrp(
    ranked: Ranking | ArrayLike,
    query_labels: ArrayLike,
    gallery_labels: ArrayLike,
    within: int | Sequence[int] = (0, 1, 2),
    *,
    drop_unlabelled: bool = False,
) -> PerQuery:
    """Plausible-Match R-Precision: the mean over ζ of R-Precision with labels within Hamming ζ.

    `within` holds the ζs; one number stands for itself. `drop_unlabelled` takes items without any
    label out of the gallery, and makes queries without any NaN. A query that has no match under
    one of the ζs is NaN too: its mean would be over other ζs than that of its neighbours.
    Paper: §4.1.1; §C.1 for `drop_unlabelled`.
    Differs: §C.1 says ζ = 2; §4.1.1 and the authors' code average ζ = 0, 1, 2, the default here.
    Relation: ECCV Caption's PMRP is another one: ζ = 0, over the first min(R, 50).

    >>> pmrp([[0.9, 0.8, 0.1]], [[1, 0]], [[1, 0], [0, 1], [1, 1]], within=(0, 1))
    array([0.75])
    """
    radii = _checked_radii(within)
    queries = binary_labels(query_labels, "query_labels")
    gallery = binary_labels(gallery_labels, "gallery_labels")
    source = _checked(ranked, (len(queries), len(gallery)))
    asked = _labelled(queries, drop_unlabelled=drop_unlabelled)
    labelled = _labelled(gallery, drop_unlabelled=drop_unlabelled)
    factors = hamming_factors(queries, gallery[labelled])
    _require_plausible_depth(source, factors, asked, labelled, max(radii))
    return np.where(asked, _plausible(source, factors, labelled, radii), np.nan)


def chance(matches: Matches) -> PerQuery:
    """The R-Precision that a random order of the gallery has on average: R / G.

    >>> chance(Matches.from_pairs([0, 0], [0, 2], shape=(2, 4)))
    array([0.5, nan])
    """
    return np.where(matches.answerable, matches.counts / matches.shape[1], np.nan)


def share_of_hits(
    hits: Bool[np.ndarray, "b k"], depth: Int[np.ndarray, " b"]
) -> Float[np.ndarray, " b"]:
    """Precision: how many of the first `depth` are right; none beyond them may be true in `hits`.

    >>> share_of_hits(np.array([[True, False, True]]), np.array([4]))
    array([0.5])
    """
    return np.asarray(np.count_nonzero(hits, axis=1) / depth)


def average_precision(
    hits: Bool[np.ndarray, "b k"], depth: Int[np.ndarray, " b"]
) -> Float[np.ndarray, " b"]:
    """(1/depth) Σ P@i rel_i of hits in order; none beyond `depth` may be true in `hits`.

    >>> average_precision(np.array([[True, False, False]]), np.array([2]))
    array([0.5])
    """
    rows, columns = np.nonzero(hits)
    precisions = np.cumsum(hits, axis=1)[rows, columns] / (columns + 1)
    # bincount adds in the order of the ranks, so blocks of any width give the same last digit
    return np.asarray(np.bincount(rows, precisions, minlength=len(hits)) / depth)


def first_rank(scores: Float[np.ndarray, " g"], matched: Int[np.ndarray, " r"]) -> float:
    """The rank of the best right answer by counting what comes before it: nothing is sorted.

    >>> print(first_rank(np.array([0.1, 0.9, 0.5]), np.array([0, 2])))
    2.0
    """
    if not len(matched):
        return np.inf
    best = matched[np.argmax(scores[matched])]  # the first maximum is the lowest id
    higher = np.count_nonzero(scores > scores[best])
    return 1.0 + higher + np.count_nonzero(scores[:best] == scores[best])


def _checked(ranked: Ranking | ArrayLike, shape: tuple[int, int]) -> Source:
    source = ranked if isinstance(ranked, Ranking) else as_scores(ranked)
    given = (len(source), _gallery_size(source, shape[1]))
    if given != shape:
        raise ShapeError(
            f"ranking and right answers must speak of the same items - got {given} and {shape} "
            "(queries, gallery items) - transpose one of them, or rank the items they were made for"
        )
    return source


def _gallery_size(source: Source, expected: int) -> int:
    if not isinstance(source, Ranking):
        return int(source.shape[1])
    if source.gallery_size is None:
        return max(expected, int(source.ids.max()) + 1)
    return source.gallery_size


def _require_depth(source: Source, needed: int, gallery: int, metric: str) -> None:
    if isinstance(source, Ranking) and source.depth < min(needed, gallery):
        raise DataError(
            f"the ranking is too short for {metric} - it keeps {source.depth} of {gallery} items, "
            f"{min(needed, gallery)} are needed - rank with k={min(needed, gallery)} or more"
        )


def _row_bytes(source: Source) -> int:
    """What one query costs in temporaries: sorting keys, hits, running counts, label distances."""
    return (TOP_IDS_BYTES + 24) * (source.depth if isinstance(source, Ranking) else source.shape[1])


def _best(source: Source, rows: slice, depth: int) -> Int64[np.ndarray, "b k"]:
    if isinstance(source, Ranking):
        return source.ids[rows, :depth].numpy()
    return top_ids(read_rows(source, rows), min(depth, source.shape[1]))


def _from_hits(
    source: Source,
    matches: Matches,
    depths: Int[np.ndarray, " q"],
    value: Callable[[Bool[np.ndarray, "b k"], Int[np.ndarray, " b"]], Float[np.ndarray, " b"]],
) -> PerQuery:
    """value(hits within the first depths[q], depths[q]) of every query that has right answers."""
    out = np.full(len(matches), np.nan)

    def fill(rows: slice) -> None:
        depth = np.maximum(depths[rows], 1)
        hits = matches.hits(_best(source, rows, int(depth.max())), rows.start)
        hits &= np.arange(hits.shape[1]) < depth[:, None]
        out[rows] = value(hits, depth)

    each_block(fill, len(out), row_bytes=_row_bytes(source))
    return np.where(matches.answerable, out, np.nan)


def _first_ranks(source: Source, matches: Matches, depth: int) -> PerQuery:
    """The rank of each query's first right answer, no deeper than `depth` into a ranking."""
    ranks = np.empty(len(matches))

    def fill(rows: slice) -> None:
        if isinstance(source, Ranking):
            ranks[rows] = _first_hits(matches.hits(source.ids[rows, :depth], rows.start))
        else:
            block = read_rows(source, rows)
            pairs = zip(block, matches.rows(rows.start, len(block)), strict=True)
            ranks[rows] = [first_rank(scores, matched) for scores, matched in pairs]

    each_block(fill, len(ranks), row_bytes=_row_bytes(source))
    return ranks


def _first_hits(hits: Bool[np.ndarray, "b k"]) -> Float64[np.ndarray, " b"]:
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, np.inf)


def _checked_radii(within: int | Sequence[int]) -> list[int]:
    radii = np.atleast_1d(within).tolist()
    if not radii:
        raise ConfigError("within is empty - got no ζ - give at least one, as in within=(0, 1, 2)")
    return [checked_radius(radius) for radius in radii]


def _labelled(
    labels: Float32[np.ndarray, "n l"], *, drop_unlabelled: bool
) -> Bool[np.ndarray, " n"]:
    """Which items take part: all, or those with at least one label."""
    if not drop_unlabelled:
        return np.ones(len(labels), np.bool_)
    labelled = np.asarray(labels.any(axis=1))
    if not labelled.any():
        raise DataError(
            f"no item would be left - all {len(labels)} label vectors are zero, drop_unlabelled is "
            "set - check the labels, or keep unlabelled items"
        )
    return labelled


def _plausible(
    source: Source, factors: Factors, labelled: Bool[np.ndarray, " g"], radii: list[int]
) -> PerQuery:
    """PMRP of every query: each row is sorted once, for all ζs, as deep as its largest R."""
    out = np.empty(len(source))
    for first, distances in _distance_blocks(factors):

        def fill(part: slice, first: int = first, near: Distances = distances) -> None:
            rows = slice(first + part.start, first + part.stop)
            out[rows] = _plausible_rows(source, rows, near[part], labelled, radii)

        each_block(fill, len(distances), row_bytes=_row_bytes(source))
    return out


def _plausible_rows(
    source: Source,
    rows: slice,
    distances: Distances,
    labelled: Bool[np.ndarray, " g"],
    radii: list[int],
) -> list[float]:
    counts = [[int(np.count_nonzero(row <= radius)) for radius in radii] for row in distances]
    deepest = max(1, max(max(row) for row in counts))
    ranked = _labelled_ids(source, rows, labelled, deepest)
    near = [row.take(ids) for row, ids in zip(distances, ranked, strict=True)]
    return [_mean_share(*row, radii) for row in zip(near, counts, strict=True)]


def _distance_blocks(factors: Factors) -> Iterator[tuple[int, Distances]]:
    """(first query, label distances), not in the pool: the product has threads of its own."""
    left, right = factors
    step = max(1, DISTANCE_BYTES // right[0].nbytes)
    for first in range(0, len(left), step):
        yield first, left[first : first + step] @ right


def _labelled_ids(
    source: Source, rows: slice, labelled: Bool[np.ndarray, " g"], depth: int
) -> Sequence[Int64[np.ndarray, " _"]]:
    """The best ids of each row, counted among the labelled gallery items only."""
    if labelled.all():
        return list(_best(source, rows, depth))
    if isinstance(source, Ranking):
        position = np.cumsum(labelled) - 1
        return [position[ids[labelled[ids]][:depth]] for ids in source.ids[rows].numpy()]
    return list(top_ids(read_rows(source, rows)[:, labelled], depth))


def _mean_share(near: Float32[np.ndarray, " k"], counts: list[int], radii: list[int]) -> float:
    """Mean over ζ of the share within ζ among the first R of `near` (distances, best first)."""
    if min(counts) == 0:
        return np.nan
    pairs = zip(counts, radii, strict=True)
    shares = [np.count_nonzero(near[:count] <= radius) / count for count, radius in pairs]
    return sum(shares) / len(shares)


def _require_plausible_depth(
    source: Source,
    factors: Factors,
    asked: Bool[np.ndarray, " q"],
    labelled: Bool[np.ndarray, " g"],
    radius: int,
) -> None:
    """A truncated ranking must still hold R labelled items for every query that is asked."""
    if not isinstance(source, Ranking) or source.depth == len(labelled):
        return
    blocks = (near for _, near in _distance_blocks(factors))
    counts = np.concatenate([np.count_nonzero(near <= radius, axis=1) for near in blocks])
    needed = np.where(asked, counts, 0)
    held = [np.count_nonzero(labelled[ids]) for ids in source.ids.numpy()]
    if np.any(needed > held):
        raise DataError(
            f"the ranking is too short for PMRP - it keeps {source.depth} of {len(labelled)} "
            f"items, {needed.max()} are needed - rank with a larger k, or pass the scores"
        )
