"""Plausible matches by groups: items with the same labels are one row of work.

The Hamming distance is a matter of the labels alone; many images share theirs, and captions have
their image's. So no matrix of queries by gallery is ever made.

Paper: §4.1.1, §C.1.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int, Int16, Int64
from numpy.typing import ArrayLike

from pcme.errors import DataError
from pcme.matches import binary_labels, hamming_factors

__all__ = ["RADII", "Groups", "Plausible"]

RADII = (0, 1, 2)
"""The ζs that PMRP is averaged over."""

NOBODY = -1
"""The group of items without any label: they count neither as queries nor as gallery."""

FAR = np.iinfo(np.int16).max


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group of equal labels each item is in, and the Hamming distances of the groups.

    >>> Groups.of([[1, 0], [0, 0], [1, 1], [1, 0]]).group
    array([ 0, -1,  1,  0])
    """

    group: Int64[np.ndarray, " n"]
    distance: Int16[np.ndarray, "u v"]
    """To each group, and last to NOBODY, who is far from all."""

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
        distance = np.full((len(kinds), len(kinds) + 1), FAR, np.int16)
        distance[:, :-1] = left @ right
        return cls(group, distance)


@dataclass(frozen=True, eq=False)
class Plausible:
    """The plausible matches of one direction."""

    query_group: Int64[np.ndarray, " q"]
    gallery_group: Int64[np.ndarray, " g"]
    distance: Int16[np.ndarray, "u v"]
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

    def deepest(self, rows: slice) -> int:
        """How deep some queries are ranked: their largest R, and whoever may stand in between."""
        groups = self.query_group[rows]
        unlabelled = int(np.count_nonzero(~self.labelled))
        return int(self.sizes[groups[groups != NOBODY]].max(initial=0)) + unlabelled

    def shares(self, ids: Int[np.ndarray, "b k"], rows: slice) -> Float64[np.ndarray, "b z"]:
        """PMRP of some queries for each ζ, from gallery ids in order; NaN without label or match.

        `ids` are `deepest` or the whole gallery.
        """
        asked = self.query_group[rows]
        there = self.gallery_group[ids]
        rank = np.cumsum(there != NOBODY, axis=1, dtype=np.int32)  # among those with labels
        near, sizes = self.distance[asked[:, None], there], self.sizes[asked]
        hits = np.stack(
            [
                np.count_nonzero((near <= radius) & (rank <= sizes[:, i, None]), axis=1)
                for i, radius in enumerate(RADII)
            ],
            axis=1,
        )
        known = (asked != NOBODY)[:, None] & (sizes > 0)
        return np.where(known, hits / np.maximum(sizes, 1), np.nan)


def _sizes(
    distance: Int16[np.ndarray, "u v"], there: Int64[np.ndarray, " g"]
) -> Int64[np.ndarray, "u z"]:
    members = np.bincount(there[there != NOBODY], minlength=len(distance)).astype(np.float32)
    counts = [(distance[:, :-1] <= radius).astype(np.float32) @ members for radius in RADII]
    return np.stack(counts, axis=1).astype(np.int64)  # exact: below 2^24 items
