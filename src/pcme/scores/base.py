"""`Score`: two sets of embeddings → [Q, G], higher is better, always; and its exact top-k.

To add a score, write one class with `pairs`, the textbook formula (CONTRIBUTING.md). It inherits
blocks under a memory cap, `topk`, the command line's list and the conformance tests. A score that
is an inner product adds `lift`; one with a faster way to a block of scores overrides `plan`.

Precision: values are computed in float64 (densities and samples: in the embeddings' own precision)
and rounded to the embeddings' dtype. Ties, that is equal rounded values, go to the lower id.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.core.registry import Registry
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError, ShapeError
from pcme.retrieval.ranking import Ranking
from pcme.scores.plans import (
    Lifted,
    LiftedPlan,
    Normal,
    PairsPlan,
    Plan,
    Side,
    item_blocks,
    query_blocks,
)
from pcme.scores.search import Search

MEMORY_LIMIT = 512 << 20
"""Default cap, in bytes, on the temporaries of one call (the result itself not counted)."""


class Score(ABC):
    """Abstract: a frozen dataclass whose fields are its parameters derives from it."""

    @abstractmethod
    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """The formula for broadcastable pairs [..., D] → [...], in float64."""

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """How a block is computed; by default `pairs`, broadcast."""
        return PairsPlan(
            self.pairs, require_gaussian(self, queries), require_gaussian(self, gallery)
        )

    def __call__(
        self, queries: Embedding, gallery: Embedding, *, memory_limit: int = MEMORY_LIMIT
    ) -> Float[Tensor, "q g"]:
        """All scores [Q, G] in the embeddings' dtype; temporaries stay under `memory_limit`."""
        out = _empty((len(queries), len(gallery)), queries)
        for rows, part in self.blocks(queries, gallery, memory_limit=memory_limit, out=out):
            out[rows] = part
        return out

    @torch.no_grad()
    def blocks(
        self,
        queries: Embedding,
        gallery: Embedding,
        *,
        memory_limit: int = MEMORY_LIMIT,
        out: Tensor | None = None,
    ) -> Iterator[tuple[slice, Float[Tensor, "q g"]]]:
        """(rows, scores of these queries against everything): the matrix without holding it.

        With `out` [Q, G] the rows are written there and yielded as views of it.
        """
        require_comparable(queries, gallery)
        plan = self.plan(queries.detach(), gallery.detach())
        for rows in query_blocks(plan, memory_limit, whole_rows=out is None):
            shape = (rows.stop - rows.start, len(gallery))
            part = _empty(shape, queries) if out is None else out[rows]
            for columns in item_blocks(plan, shape[0], memory_limit):
                part[:, columns] = plan.block(rows, columns)
            yield rows, part

    @torch.no_grad()
    def topk(
        self,
        queries: Embedding,
        gallery: Embedding,
        *,
        k: int,
        exact: bool = True,
        memory_limit: int = MEMORY_LIMIT,
    ) -> Ranking:
        """The k best items of each query: the ids that the full matrix would give.

        Scores that are (or are bounded by) a matrix product are shortlisted in single precision and
        re-ranked exactly; a query is accepted only when the bound proves that nothing was missed,
        else its list grows. `exact=False` drops the proof for the density scores (elk, overlap,
        bhattacharyya), whose recall is measured in `make bench`.
        """
        require_comparable(queries, gallery)
        if not 1 <= k <= len(gallery):
            raise ConfigError(
                f"k must be between 1 and the gallery's {len(gallery)} items, got {k}."
            )
        plan = self.plan(queries.detach(), gallery.detach())
        ids, scores = Search(plan, k, memory_limit, exact).run()
        return Ranking(ids, scores, gallery_size=len(gallery))

    def probability(self, queries: Embedding, gallery: Embedding) -> Float[Tensor, "q g"]:
        """The match probability in [0, 1], for scores that are the log of one."""
        raise ConfigError(
            f"{type(self).__name__} is not a match probability. "
            'Use scores.create("match_prob") or scores.create("overlap").'
        )


class LogProbability(Score, ABC):
    """A score that is the log of a match probability, so that ranking never underflows."""

    def probability(self, queries: Embedding, gallery: Embedding) -> Float[Tensor, "q g"]:
        """exp of the score."""
        return self(queries, gallery).exp_()


class LiftedScore(Score, ABC):
    """A score that is an inner product of lifted vectors, so any vector engine can serve it."""

    @abstractmethod
    def lift(self, items: Normal, side: Side) -> Lifted:
        """Vectors and offsets with ⟨v₁, v₂⟩ + o₁ + o₂ = pairs(p, q)."""

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """One matrix product a block."""
        return LiftedPlan(
            self.pairs,
            self.lift,
            require_gaussian(self, queries),
            require_gaussian(self, gallery),
        )


registry: Registry[Score] = Registry("score", "pcme.scores")


def require_gaussian(score: object, items: Embedding) -> Gaussian:
    """The items, or an error that says which scores take points."""
    if not isinstance(items, Gaussian):
        raise ShapeError(
            f"{type(score).__name__} compares Gaussians, got {type(items).__name__}. For points "
            'use "average_l2" or "match_prob" with method="sampled", which take samples.'
        )
    return items


def require_comparable(queries: Embedding, gallery: Embedding) -> None:
    """One clear error for empty, mismatched or non-finite input."""
    for name, items in (("queries", queries), ("gallery", gallery)):
        if not len(items):
            raise ShapeError(f"{name} is empty: a score needs at least one item on either side.")
        items.require_finite(name)
    if queries.dim != gallery.dim:
        raise ShapeError(
            f"queries have dimension {queries.dim} and the gallery has {gallery.dim}. "
            "Encode both sides with the same model."
        )
    kinds = {queries.dtype, gallery.dtype}
    places = {queries.device, gallery.device}
    if len(kinds) > 1 or len(places) > 1 or not kinds <= {torch.float32, torch.float64}:
        raise ShapeError(
            "queries and gallery must both be float32 or both float64, on one device; got "
            f"{queries.dtype} on {queries.device} and "
            f"{gallery.dtype} on {gallery.device}. Convert with .to(...)."
        )


def _empty(shape: tuple[int, int], like: Embedding) -> Tensor:
    return torch.empty(shape, dtype=like.dtype)
