"""Plausible matches by groups: items with the same labels are one row of work.

The Hamming distance is a matter of the labels alone; many images share theirs, and captions have
their image's. So no matrix of queries by gallery is ever made.

Paper: §4.1.1, §C.1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int16, Int64
from numpy.typing import ArrayLike

from pcme.errors import DataError
from pcme.retrieval.matches import binary_labels, hamming_factors
from pcme.retrieval.ranking import ids_of_keys, order_keys, top_ids

__all__ = ["RADII", "Groups", "Plausible"]

RADII = (0, 1, 2)
"""The ζs that PMRP is averaged over."""

NOBODY = -1
"""The group of items without any label: they count neither as queries nor as gallery."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group of equal labels each item is in, and the Hamming distances of the groups.

    >>> Groups.of([[1, 0], [0, 0], [1, 1], [1, 0]]).group
    array([ 0, -1,  1,  0])
    """

    group: Int64[np.ndarray, " n"]
    distance: Int16[np.ndarray, "u u"]

    @classmethod
    def of(cls, labels: ArrayLike) -> "Groups":
        """From binary labels [n,l]; an error where no item has any."""
        checked = binary_labels(labels, "labels")
        labelled = checked.any(1)
        if not labelled.any():
            raise DataError(
                f"plausible matches need labels - none of the {len(checked)} items has any - check "
                "the dataset's labels"
            )
        kinds, members = np.unique(checked[labelled], axis=0, return_inverse=True)
        group = np.full(len(checked), NOBODY)
        group[labelled] = members.reshape(-1)
        left, right = hamming_factors(kinds, kinds)
        return cls(group, (left @ right).astype(np.int16))


@dataclass(frozen=True, eq=False)
class Plausible:
    """The plausible matches of one direction."""

    query_group: Int64[np.ndarray, " q"]
    gallery_group: Int64[np.ndarray, " g"]
    distance: Int16[np.ndarray, "u u"]
    sizes: Int64[np.ndarray, "u z"]
    """How many gallery items are within each ζ of RADII, for a query of each group: its R."""

    @classmethod
    def of(
        cls,
        groups: Groups,
        queries: Int64[np.ndarray, " q"],
        gallery: Int64[np.ndarray, " g"],
    ) -> "Plausible":
        """Of queries and gallery items that have the labels of the items at these places."""
        there = groups.group[gallery]
        sizes = _sizes(groups.distance, there)
        return cls(groups.group[queries], there, groups.distance, sizes)

    def restricted(
        self, queries: Int64[np.ndarray, " fq"], gallery: Int64[np.ndarray, " fg"]
    ) -> "Plausible":
        """The same of some queries among some of the gallery."""
        there = self.gallery_group[gallery]
        sizes = _sizes(self.distance, there)
        return Plausible(self.query_group[queries], there, self.distance, sizes)

    @property
    def labelled(self) -> Bool[np.ndarray, " g"]:
        """Which gallery items take part."""
        return np.asarray(self.gallery_group != NOBODY)

    def shares(self, scores: Float[np.ndarray, "b g"], rows: slice) -> Float64[np.ndarray, "b z"]:
        """PMRP of some queries for each ζ, from their scores; NaN without label or match."""
        out = np.full((len(scores), len(RADII)), np.nan)
        there = np.flatnonzero(self.labelled)
        part = scores if len(there) == scores.shape[1] else scores[:, there]
        firsts, groups = _firsts(part), self.gallery_group[there]
        for place, group in enumerate(self.query_group[rows].tolist()):
            if group != NOBODY:
                sizes = self.sizes[group].tolist()
                near = self.distance[group].take(groups.take(firsts(place, sizes)))
                out[place] = [
                    np.count_nonzero(near[:size] <= radius) / size if size else np.nan
                    for size, radius in zip(sizes, RADII, strict=True)
                ]
        return out


def _firsts(
    scores: Float[np.ndarray, "b g"],
) -> Callable[[int, Sequence[int]], Int64[np.ndarray, " r"]]:
    """(row, sizes) → items of which the first sizes[i] are the row's best, for each i.

    They are not in order within: PMRP asks which items come first, not how they follow each other.
    """
    if scores.dtype != np.float32:  # doubles have no keys of one word
        ranked = top_ids(scores, scores.shape[1])
        return lambda row, sizes: ranked[row, : max(sizes)]
    keys = order_keys(scores)

    def firsts(row: int, sizes: Sequence[int]) -> Int64[np.ndarray, " r"]:
        ends = sorted({size - 1 for size in sizes if 0 < size < keys.shape[1]})
        if ends:
            keys[row].partition(ends)
        return ids_of_keys(keys[row, : max(sizes)])

    return firsts


def _sizes(
    distance: Int16[np.ndarray, "u u"], there: Int64[np.ndarray, " g"]
) -> Int64[np.ndarray, "u z"]:
    members = np.bincount(there[there != NOBODY], minlength=len(distance)).astype(np.float32)
    counts = [(distance <= radius).astype(np.float32) @ members for radius in RADII]
    return np.stack(counts, axis=1).astype(np.int64)  # exact: below 2^24 items
