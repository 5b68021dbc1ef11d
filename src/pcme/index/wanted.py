"""Wanted: a query ready to be compared with items; Answer: what a search knows when it is done."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from pcme.embedding import Embedding, Gaussian
from pcme.index.settings import POINT
from pcme.index.values import Exact
from pcme.scores.combine import Calibrate, Query

__all__ = ["Answer", "Wanted"]

Side = Literal["captions", "images"]


@dataclass(frozen=True, eq=False)
class Wanted:
    """One embedding, or a combination of several, encoded."""

    embedding: Embedding | None
    combined: Query | None = None
    side: Side | None = None
    """Which of the model's two sides it came through, if any."""
    note: str | None = None

    def proposals(self) -> list[Embedding]:
        """Embeddings near which whatever matches is found."""
        if self.combined is not None:
            return self.combined.proposals()
        assert self.embedding is not None
        return [self.embedding]

    def scores(
        self, items: Embedding, exact: Exact, calibrate: Calibrate | None
    ) -> Float[np.ndarray, " n"]:
        """The scores that decide; of a combination they are calibrated already, where they can."""
        if self.combined is not None:
            return self.combined.log_probability(exact.score, items, calibrate=calibrate)
        assert self.embedding is not None
        return exact(self.embedding, items).numpy()

    def uncertainty(self) -> float | None:
        """The geometric mean of σ; None for a point and for a combination."""
        if not isinstance(self.embedding, Gaussian) or (self.embedding.log_sigma <= POINT).all():
            return None
        return float(self.embedding.uncertainty()[0])


@dataclass(frozen=True, eq=False)
class Answer:
    """The best ids with their scores, best first, and what is known of the rest."""

    ids: list[str]
    scores: Float[np.ndarray, " k"]
    uncertainty: list[float] | None
    pool: Float[np.ndarray, " m"]
    """All scores that became known on the way."""
    sample: Float[np.ndarray, " s"]
    """Scores of some of the others, drawn evenly."""
    searched: int
    exact: bool

    def expected(self, probability: Callable[[np.ndarray], np.ndarray]) -> float:
        """Σ p of all that was searched: the pool's, and the rest's as the sample has it."""
        total = float(probability(self.pool).sum())
        if rest := self.searched - len(self.pool):
            total += rest * float(probability(self.sample).mean()) if len(self.sample) else 0.0
        return total
