"""Plausible matches by groups: items with the same labels are one row of work.

The Hamming distance is a matter of the labels alone, and 5,000 images of COCO have half as many
different ones; their captions inherit them. So no matrix of queries by gallery is ever made.

Paper: §4.1.1, §C.1.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int, Int32, Int64
from numpy.typing import ArrayLike

from pcme.errors import DataError
from pcme.matches import binary_labels, hamming_factors

__all__ = ["RADII", "Plausible"]

RADII = (0, 1, 2)
"""The ζs that PMRP is averaged over."""

NOBODY = -1
"""The group of items without any label: they count neither as queries nor as gallery."""


@dataclass(frozen=True, eq=False)
class Plausible:
    """Which group of equal labels each item is in, and how far groups are apart.

    >>> found = Plausible.of([[1, 0], [0, 0]], [[1, 0], [0, 1], [1, 1]])
    >>> found.query_group
    array([ 1, -1])
    >>> found.sizes[1]
    array([1, 2, 3])
    """

    query_group: Int64[np.ndarray, " q"]
    gallery_group: Int64[np.ndarray, " g"]
    distance: Int32[np.ndarray, "u v"]
    """Hamming distances of the queries' groups to those of the gallery."""
    sizes: Int64[np.ndarray, "u z"]
    """How many gallery items are within each ζ of RADII, for a query of each group: its R."""

    @classmethod
    def of(cls, query_labels: ArrayLike, gallery_labels: ArrayLike) -> "Plausible":
        """From binary labels [q,l] and [g,l]; an error where no item has any."""
        queries = binary_labels(query_labels, "query labels")
        gallery = binary_labels(gallery_labels, "gallery labels")
        if not (queries.any() and gallery.any()):
            raise DataError(
                f"plausible matches need labels - all {len(queries)} queries or all {len(gallery)} "
                "gallery items have none - check the dataset's labels"
            )
        asked, query_group = _groups(queries)
        found, gallery_group = _groups(gallery)
        left, right = hamming_factors(asked, found)
        distance = (left @ right).astype(np.int32)
        return cls(query_group, gallery_group, distance, _sizes(distance, gallery_group))

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
        """How many labelled items must be ranked for some queries: their largest R."""
        groups = self.query_group[rows]
        return int(self.sizes[groups[groups != NOBODY]].max(initial=0))

    def shares(self, ids: Int[np.ndarray, "b k"], rows: slice) -> Float64[np.ndarray, "b z"]:
        """PMRP of some queries for each ζ, from gallery ids in order; NaN without label or match.

        `ids` hold at least `deepest` labelled items a row, or the whole gallery.
        """
        out = np.full((len(ids), len(RADII)), np.nan)
        labelled = None if self.labelled.all() else self.labelled
        for place, group in enumerate(self.query_group[rows].tolist()):
            if group != NOBODY:
                row = ids[place] if labelled is None else ids[place][labelled[ids[place]]]
                out[place] = self._row(row, group)
        return out

    def _row(self, ranked: Int[np.ndarray, " k"], group: int) -> list[float]:
        counts = self.sizes[group].tolist()
        near = self.distance[group].take(self.gallery_group.take(ranked[: max(counts)]))
        return [
            np.count_nonzero(near[:count] <= radius) / count if count else np.nan
            for count, radius in zip(counts, RADII, strict=True)
        ]


def _sizes(
    distance: Int32[np.ndarray, "u v"], gallery_group: Int64[np.ndarray, " g"]
) -> Int64[np.ndarray, "u z"]:
    members = np.bincount(gallery_group[gallery_group != NOBODY], minlength=distance.shape[1])
    return np.stack([(distance <= radius) @ members for radius in RADII], axis=1)


def _groups(
    labels: Float32[np.ndarray, "n l"],
) -> tuple[Float32[np.ndarray, "u l"], Int64[np.ndarray, " n"]]:
    """The different label vectors, and which of them each item has; NOBODY for none at all."""
    kinds, group = np.unique(labels, axis=0, return_inverse=True)
    return kinds, np.where(labels.any(1), group.reshape(-1), NOBODY)
