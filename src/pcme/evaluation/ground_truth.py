"""Ground truth: the relevant items of every query, as the data or somebody else has judged them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int64

from pcme.retrieval.matches import Matches
from pcme.retrieval.plausible import Plausible


@dataclass(frozen=True, eq=False)
class Relation:
    """The relevant items of every query; `sizes` also counts those outside the gallery (0: the query is not asked)."""

    matches: Matches
    sizes: Int64[np.ndarray, " q"]

    @classmethod
    def of(cls, matches: Matches) -> "Relation":
        """Return the relation whose relevant items are all in the gallery."""
        return cls(matches, matches.counts)


@dataclass(frozen=True, eq=False)
class Fold:
    """Some queries that are asked among some of the gallery; indices ascend."""

    queries: Int64[np.ndarray, " fq"]
    gallery: Int64[np.ndarray, " fg"]
    matches: Matches
    plausible: Plausible | None


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """The ground truth of one direction.

    Queries with one number in `clusters` are not independent: captions of one image, or queries of one class.
    `others` are further judgements of the same pairs, by name.
    """

    ids: tuple[str, ...]
    matches: Matches
    clusters: Int64[np.ndarray, " q"]
    plausible: Plausible | None = None
    folds: tuple[Fold, ...] = ()
    others: Mapping[str, Relation] = field(default_factory=dict)

    @property
    def fold_of(self) -> Int64[np.ndarray, " q"]:
        """The number of each query's fold; -1 for none."""
        numbers = np.full(len(self.ids), -1, np.int64)
        for number, fold in enumerate(self.folds):
            numbers[fold.queries] = number
        return numbers
