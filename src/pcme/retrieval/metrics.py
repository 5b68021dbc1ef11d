"""Retrieval metrics, one value per query; the mean, median or histogram is the caller's.

Every function takes a `Ranking` or a score matrix [Q,G], and returns float64 [Q] with **NaN where a query has no
relevant item at all** (average with `np.nanmean`, or keep `matches.answerable`). Of scores only as much is sorted as
the metric needs, in blocks of rows: no full ranking ever exists. Paper: §4.1.1 and §C.1.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int64
from numpy.typing import ArrayLike

from pcme.errors import DataError, ShapeError
from pcme.retrieval.blocks import each_block, read_rows
from pcme.retrieval.matches import Matches
from pcme.retrieval.ranking import TOP_IDS_BYTES, Ranking, as_scores, checked_k, top_ids

PerQuery: TypeAlias = Float64[np.ndarray, " q"]
"""One value per query."""

Source: TypeAlias = Ranking | Float[np.ndarray, "q g"]
"""What the metrics work on once it is checked: a ranking, or a score matrix without NaN."""


def recall(ranked: Ranking | ArrayLike, matches: Matches, k: int) -> PerQuery:
    """1 where any relevant item is among the first `k`, else 0 (Recall@k). Paper: §4.1.1.

    >>> matches = Matches.from_pairs([0, 1], [2, 0], shape=(2, 3))
    >>> recall([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1]], matches, 1)
    array([0., 1.])
    """
    source = _source(ranked, matches, checked_k(k), f"recall@{k}")
    return np.where(matches.answerable, _first_ranks(source, matches, k) <= k, np.nan)


def precision(ranked: Ranking | ArrayLike, matches: Matches, k: int) -> PerQuery:
    """The share of relevant items among the first `k` (Precision@k), as the authors' code prints it for CUB Captions.

    >>> precision([[0.1, 0.9, 0.5]], Matches.from_pairs([0], [2], shape=(1, 3)), 2)
    array([0.5])
    """
    source = _source(ranked, matches, checked_k(k), f"precision@{k}")
    return _from_hits(source, matches, np.full(len(matches), k), share_of_hits)


def r_precision(ranked: Ranking | ArrayLike, matches: Matches) -> PerQuery:
    """The share of relevant items among the first R = |τ(q)|; 1 exactly when all of them come first. Paper: §4.1.1.

    >>> r_precision([[0.1, 0.9, 0.5]], Matches.from_pairs([0, 0], [0, 1], shape=(1, 3)))
    array([0.5])
    """
    source = _source(ranked, matches, int(matches.counts.max()), "R-Precision")
    return _from_hits(source, matches, matches.counts, share_of_hits)


def map_at_r(ranked: Ranking | ArrayLike, matches: Matches) -> PerQuery:
    """(1/R) Σ_{i≤R} P@i rel_i, at most the R-Precision, which ignores the order within the first R. Paper: §D.

    >>> map_at_r([[0.1, 0.9, 0.5]], Matches.from_pairs([0, 0], [0, 2], shape=(1, 3)))
    array([0.25])
    """
    source = _source(ranked, matches, int(matches.counts.max()), "MAP@R")
    return _from_hits(source, matches, matches.counts, average_precision)


def median_rank(ranked: Ranking | ArrayLike, matches: Matches) -> PerQuery:
    """The rank, from 1, of each query's first relevant item, whose median is medR; inf where a truncated ranking ends.

    Paper: §4.1.1 (COCO).

    >>> median_rank([[0.1, 0.9, 0.5]], Matches.from_pairs([0, 0], [0, 2], shape=(1, 3)))
    array([2.])
    """
    ranks = _first_ranks(checked_source(ranked, matches.shape), matches, matches.shape[1])
    return np.where(matches.answerable, ranks, np.nan)


def chance(matches: Matches) -> PerQuery:
    """The R-Precision that a random order of the gallery has on average: R / G.

    >>> chance(Matches.from_pairs([0, 0], [0, 2], shape=(2, 4)))
    array([0.5, nan])
    """
    return np.where(matches.answerable, matches.counts / matches.shape[1], np.nan)


def share_of_hits(hits: Bool[np.ndarray, "b k"], depth: Int[np.ndarray, " b"]) -> Float[np.ndarray, " b"]:
    """Precision: the share of the first `depth` that are relevant; `hits` has none beyond them.

    >>> share_of_hits(np.array([[True, False, True]]), np.array([4]))
    array([0.5])
    """
    return np.asarray(np.count_nonzero(hits, axis=1) / depth)


def average_precision(hits: Bool[np.ndarray, "b k"], depth: Int[np.ndarray, " b"]) -> Float[np.ndarray, " b"]:
    """(1/depth) Σ_{i≤depth} P@i rel_i of hits in order, with none beyond `depth`.

    >>> average_precision(np.array([[True, False, False]]), np.array([2]))
    array([0.5])
    """
    rows, columns = np.nonzero(hits)
    precisions = np.cumsum(hits, axis=1)[rows, columns] / (columns + 1)
    # bincount adds in the order of the ranks, so blocks of any width give the same last digit
    return np.asarray(np.bincount(rows, precisions, minlength=len(hits)) / depth)


def first_rank(scores: Float[np.ndarray, " g"], matched: Int[np.ndarray, " r"]) -> float:
    """The rank of the best relevant item by counting what comes before it: nothing is sorted.

    >>> print(first_rank(np.array([0.1, 0.9, 0.5]), np.array([0, 2])))
    2.0
    """
    if not len(matched):
        return np.inf
    best = matched[np.argmax(scores[matched])]  # the first maximum is the lowest id
    higher = np.count_nonzero(scores > scores[best])
    return 1.0 + higher + np.count_nonzero(scores[:best] == scores[best])


def checked_source(ranked: Ranking | ArrayLike, shape: tuple[int, int]) -> Source:
    """Return a ranking, or checked scores, of exactly these numbers of queries and items."""
    if isinstance(ranked, Ranking):
        source: Source = ranked
        size = ranked.gallery_size or max(shape[1], int(ranked.ids.max()) + 1)
    else:
        source = as_scores(ranked)
        size = source.shape[1]
    if (len(source), size) != shape:
        raise ShapeError(
            f"ranking: must be of the same items as the matches, got {len(source), size} and {shape} (queries, gallery "
            "items). Transpose one of them, or rank the items they were made for."
        )
    return source


def _source(ranked: Ranking | ArrayLike, matches: Matches, depth: int, metric: str) -> Source:
    """A checked source that keeps at least `depth` items per query, or all there are."""
    source, gallery = checked_source(ranked, matches.shape), matches.shape[1]
    needed = min(depth, gallery)
    if isinstance(source, Ranking) and source.depth < needed:
        raise DataError(
            f"{metric}: the ranking is too short, it keeps {source.depth} of {gallery} items, {needed} are needed. "
            f"Rank with k={needed} or more."
        )
    return source


def row_bytes(source: Source) -> int:
    """Return the bytes of temporaries per query: sorting keys, hits, running counts."""
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
    """value(hits within the first depths[q], depths[q]) of every query that has relevant items."""
    out = np.full(len(matches), np.nan)

    def fill(rows: slice) -> None:
        depth = np.maximum(depths[rows], 1)
        hits = matches.hits(_best(source, rows, int(depth.max())), rows.start)
        out[rows] = value(within(hits, depth), depth)

    each_block(fill, len(out), row_bytes=row_bytes(source))
    return np.where(matches.answerable, out, np.nan)


def _first_ranks(source: Source, matches: Matches, depth: int) -> PerQuery:
    """The rank of each query's first relevant item, no deeper than `depth` into a ranking."""
    ranks = np.empty(len(matches))

    def fill(rows: slice) -> None:
        if isinstance(source, Ranking):
            ranks[rows] = first_hits(matches.hits(source.ids[rows, :depth], rows.start))
        else:
            block = read_rows(source, rows)
            pairs = zip(block, matches.rows(rows.start, len(block)), strict=True)
            ranks[rows] = [first_rank(scores, matched) for scores, matched in pairs]

    each_block(fill, len(ranks), row_bytes=row_bytes(source))
    return ranks


def within(hits: Bool[np.ndarray, "b k"], depth: Int[np.ndarray, " b"]) -> Bool[np.ndarray, "b k"]:
    """Clear the hits beyond each row's `depth`, in place."""
    hits &= np.arange(hits.shape[1]) < depth[:, None]
    return hits


def first_hits(hits: Bool[np.ndarray, "b k"]) -> Float64[np.ndarray, " b"]:
    """Return the rank, from 1, of each row's first hit; inf where there is none."""
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, np.inf)
