"""Relation: right answers as somebody has judged them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from pcme.retrieval.matches import Matches

__all__ = ["Relation"]


@dataclass(frozen=True, eq=False)
class Relation:
    """Right answers of every query among the gallery; `sizes` also count those that are not there.

    A query of size 0 is not asked.
    """

    matches: Matches
    sizes: Int64[np.ndarray, " q"]

    @classmethod
    def of(cls, matches: Matches) -> "Relation":
        """All right answers are there."""
        return cls(matches, matches.counts)
