"""Plausible matches and PMRP: items with the same labels are one row of work.

The Hamming distance depends on the labels alone; many images share theirs, and captions have their image's. So
distances are kept between groups of equal labels, never between queries and gallery. Paper: §4.1.1, §C.1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int16, Int64
from numpy.typing import ArrayLike

from pcme.errors import ConfigError, DataError
from pcme.retrieval.blocks import each_block, read_rows
from pcme.retrieval.labels import binary_labels, checked_radius, hamming_factors, require_equally_wide
from pcme.retrieval.metrics import PerQuery, checked_source, row_bytes
from pcme.retrieval.ranking import Ranking, ids_of_keys, order_keys, top_ids

RADII = (0, 1, 2)
"""The ζs that PMRP is averaged over."""

NOBODY = -1
"""The group of items without any label: they count neither as queries nor as gallery."""

FirstGroups = Callable[[int, Sequence[int]], Int64[np.ndarray, " r"]]
"""(row, sizes) → groups of the items of which the first sizes[i] are the row's best, for each i."""


def pmrp(
    ranked: Ranking | ArrayLike,
    query_labels: ArrayLike,
    gallery_labels: ArrayLike,
    within: int | Sequence[int] = RADII,
    *,
    drop_unlabelled: bool = False,
) -> PerQuery:
    """Plausible-Match R-Precision: the mean over ζ of R-Precision with labels within Hamming ζ.

    `within` holds the ζs; one number stands for itself. `drop_unlabelled` takes items without any label out of the
    gallery, and makes queries without any NaN. A query that has no match under one of the ζs is NaN too: its mean would
    be over other ζs than that of its neighbours. Paper: §4.1.1; §C.1 for `drop_unlabelled`. Differs: §C.1 says ζ = 2;
    §4.1.1 and the authors' code average ζ = 0, 1, 2, the default here. Relation: ECCV Caption's PMRP is another one:
    ζ = 0, over the first min(R, 50).

    >>> pmrp([[0.9, 0.8, 0.1]], [[1, 0]], [[1, 0], [0, 1], [1, 1]], within=(0, 1))
    array([0.75])
    """
    radii = _checked_radii(within)
    queries = binary_labels(query_labels, "query_labels")
    gallery = binary_labels(gallery_labels, "gallery_labels")
    require_equally_wide(queries, gallery)
    source = checked_source(ranked, (len(queries), len(gallery)))
    if drop_unlabelled:
        _require_labelled(queries)
        _require_labelled(gallery)
    groups = Groups.of(np.concatenate([queries, gallery]), drop_unlabelled=drop_unlabelled)
    rows = np.arange(len(groups.group))
    plausible = Plausible.of(groups, rows[: len(queries)], rows[len(queries) :], radii)
    if isinstance(source, Ranking):
        plausible.require_depth(source)
    out = np.empty(len(source))

    def fill(rows: slice) -> None:
        block = source[rows] if isinstance(source, Ranking) else read_rows(source, rows)
        out[rows] = plausible.shares(block, rows).mean(1)

    each_block(fill, len(out), row_bytes=row_bytes(source))
    return out


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of equal labels of each item, and the Hamming distances between groups.

    >>> Groups.of([[1, 0], [0, 0], [1, 1], [1, 0]]).group
    array([ 0, -1,  1,  0])
    """

    group: Int64[np.ndarray, " n"]
    distance: Int16[np.ndarray, "u u"]

    @classmethod
    def of(cls, labels: ArrayLike, *, drop_unlabelled: bool = True) -> "Groups":
        """Group binary labels [n,l]; items without any are in no group, unless they are kept."""
        checked = binary_labels(labels, "labels")
        members = np.asarray(checked.any(1) | (not drop_unlabelled))
        _require_labelled(members)
        kinds, numbers = np.unique(checked[members], axis=0, return_inverse=True)
        group = np.full(len(checked), NOBODY)
        group[members] = numbers.reshape(-1)
        left, right = hamming_factors(kinds, kinds)
        return cls(group, (left @ right).astype(np.int16))


@dataclass(frozen=True, eq=False)
class Plausible:
    """The plausible matches of one direction."""

    query_group: Int64[np.ndarray, " q"]
    gallery_group: Int64[np.ndarray, " g"]
    distance: Int16[np.ndarray, "u u"]
    radii: tuple[int, ...]
    sizes: Int64[np.ndarray, "u z"]
    """How many gallery items are within each radius, for a query of each group: its R."""

    @classmethod
    def of(
        cls,
        groups: Groups,
        queries: Int64[np.ndarray, " q"],
        gallery: Int64[np.ndarray, " g"],
        radii: tuple[int, ...] = RADII,
    ) -> "Plausible":
        """Match queries and gallery items that have the labels of the items at these indices."""
        there, distance = groups.group[gallery], groups.distance
        members = np.bincount(there[there != NOBODY], minlength=len(distance)).astype(np.float32)
        counts = [(distance <= radius).astype(np.float32) @ members for radius in radii]
        sizes = np.stack(counts, axis=1).astype(np.int64)  # exact: below 2^24 items
        return cls(groups.group[queries], there, distance, radii, sizes)

    def restricted(self, queries: Int64[np.ndarray, " fq"], gallery: Int64[np.ndarray, " fg"]) -> "Plausible":
        """Keep some queries and some of the gallery."""
        groups = Groups(np.concatenate([self.query_group, self.gallery_group]), self.distance)
        return Plausible.of(groups, queries, gallery + len(self.query_group), self.radii)

    @property
    def labelled(self) -> Bool[np.ndarray, " g"]:
        """Which gallery items take part."""
        return np.asarray(self.gallery_group != NOBODY)

    def shares(self, ranked: Ranking | Float[np.ndarray, "b g"], rows: slice) -> Float64[np.ndarray, "b z"]:
        """PMRP of the queries `rows` per radius, from their scores; NaN without label or match."""
        if isinstance(ranked, Ranking):
            first = _first_ranked(self.gallery_group[ranked.ids.numpy()])
        else:
            there = np.flatnonzero(self.labelled)
            part = ranked if len(there) == ranked.shape[1] else ranked[:, there]
            first = _first_scored(part, self.gallery_group[there])
        out = np.full((len(ranked), len(self.radii)), np.nan)
        for row, group in enumerate(self.query_group[rows].tolist()):
            if group != NOBODY:
                sizes = self.sizes[group].tolist()
                near = self.distance[group].take(first(row, sizes))
                out[row] = [
                    np.count_nonzero(near[:size] <= radius) / size if size else np.nan
                    for size, radius in zip(sizes, self.radii, strict=True)
                ]
        return out

    def require_depth(self, ranking: Ranking) -> None:
        """Refuse a truncated ranking that does not hold R labelled items for a query."""
        if ranking.depth == len(self.gallery_group):
            return
        needed = np.where(self.query_group == NOBODY, 0, self.sizes[self.query_group].max(1))
        held = np.count_nonzero(self.labelled[ranking.ids.numpy()], axis=1)
        if np.any(needed > held):
            raise DataError(
                f"PMRP: the ranking is too short, it keeps {ranking.depth} of {len(self.gallery_group)} items, "
                f"{needed.max()} are needed. Rank with a larger k, or pass the scores."
            )


def _first_ranked(groups: Int64[np.ndarray, "b g"]) -> FirstGroups:
    return lambda row, sizes: groups[row][groups[row] != NOBODY][: max(sizes)]


def _first_scored(scores: Float[np.ndarray, "b g"], groups: Int64[np.ndarray, " g"]) -> FirstGroups:
    """Find the best items of a row of scores, in any order: PMRP only asks which of them come first."""
    if scores.dtype != np.float32:  # doubles have no keys of one word
        ranked = top_ids(scores, scores.shape[1])
        return lambda row, sizes: groups.take(ranked[row, : max(sizes)])
    keys = order_keys(scores)

    def first(row: int, sizes: Sequence[int]) -> Int64[np.ndarray, " r"]:
        ends = sorted({size - 1 for size in sizes if 0 < size < keys.shape[1]})
        if ends:
            keys[row].partition(ends)
        return groups.take(ids_of_keys(keys[row, : max(sizes)]))

    return first


def _checked_radii(within: int | Sequence[int]) -> tuple[int, ...]:
    radii = np.atleast_1d(within).tolist()
    if not radii:
        raise ConfigError("within: is empty. Give at least one ζ, as in within=(0, 1, 2).")
    return tuple(map(checked_radius, radii))


def _require_labelled(labels: Float32[np.ndarray, "n l"] | Bool[np.ndarray, " n"]) -> None:
    if not labels.any():
        raise DataError(
            f"labels: no item would be left, all {len(labels)} label vectors are zero. Check the labels, or keep "
            "unlabelled items."
        )
