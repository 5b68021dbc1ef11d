"""Gallery: the items that a scan searches, and how it decides between equal scores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from pcme.embedding import Embedding

Best = tuple[Float[Tensor, "q k"], Int64[Tensor, "q k"]]


@runtime_checkable
class Gallery(Protocol):
    """The items that a scan searches; they may change between two searches."""

    @property
    def embedding(self) -> Embedding:
        """All items."""

    @property
    def generation(self) -> int:
        """A number that changes with the items."""

    @property
    def stable(self) -> int:
        """Rows below it are what they were in the generation before."""

    @property
    def lasting(self) -> bool:
        """Whether several searches will follow, so that copies of the items pay."""

    def best(self, scores: Float[Tensor, "q m"], rows: Int64[Tensor, "q m"], k: int) -> Best:
        """(scores, rows) of the k best, best first; the gallery decides between equal scores."""


@dataclass(frozen=True, eq=False)
class Fixed:
    """A gallery that never changes; of equal scores the lower row is better."""

    embedding: Embedding
    generation: ClassVar[int] = 0
    stable: ClassVar[int] = 0
    lasting: ClassVar[bool] = False

    def best(self, scores: Float[Tensor, "q m"], rows: Int64[Tensor, "q m"], k: int) -> Best:
        """A stable sort of what is first sorted by row."""
        rows, by_row = rows.sort(dim=1)
        top, order = scores.gather(1, by_row).sort(dim=1, descending=True, stable=True)
        return top[:, :k], rows.gather(1, order)[:, :k]


@dataclass(frozen=True, eq=False)
class TopK:
    """The best rows of a query, best first; `pool` holds all rows whose scores became known."""

    rows: Int64[np.ndarray, " k"]
    scores: Float[np.ndarray, " k"]
    pool: Int64[np.ndarray, " m"]
    pool_scores: Float[np.ndarray, " m"]
    searched: int
    """The number of rows searched."""


def best_first(scores: Float[np.ndarray, " m"], key: Callable[[int], Any], k: int) -> Int64[np.ndarray, " k"]:
    """The positions of the k highest scores, best first; equal scores in the order of their keys.

    >>> best_first(np.array([0.5, 2.0, 0.5], np.float32), "cab".__getitem__, 2)
    array([1, 2])
    """
    k = min(k, len(scores))
    if not k:
        return np.empty(0, np.int64)
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    candidates = np.flatnonzero(scores >= least).tolist()
    candidates.sort(key=lambda n: (-scores[n], key(n)))
    return np.array(candidates[:k], np.int64)
