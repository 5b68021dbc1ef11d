"""`Score`: two sets of embeddings → [Q, G], higher is better, always; and its exact top-k.

To add a score, write one class with `pairs`, the textbook formula (CONTRIBUTING.md). It inherits
blocks under a memory cap, `topk`, the command line's list and the conformance tests. A score that
is an inner product adds `lift`; one with a faster way to a block of scores overrides `plan`.

Precision: values are computed in float64 (densities and samples: in the embeddings' own precision)
and rounded to the embeddings' dtype. Ties, that is equal rounded values, go to the lower id.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.core.registry import Registry
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError, ShapeError
from pcme.retrieval.ranking import Ranking
from pcme.scores.distance_scan import LiftedScan
from pcme.scores.gallery import Fixed, Gallery
from pcme.scores.lifts import Ann
from pcme.scores.plans import (
    MEMORY_LIMIT,
    Cost,
    Lifted,
    LiftedPlan,
    Normal,
    PairsPlan,
    Plan,
    Side,
    item_blocks,
    query_blocks,
)
from pcme.scores.scan import Scan, score_one


class Score(ABC):
    """Abstract base of all scores: a frozen dataclass whose fields are its parameters.

    The members above `pairs` are the facts about a score that other packages ask for.
    """

    symmetric: ClassVar[bool] = False
    """Whether both directions share one matrix: s(p, q) = s(q, p)."""
    orders_like: ClassVar[str | None] = None
    """Another score that ranks items in the same order, whatever the parameters."""
    divides_by_sigma: ClassVar[bool] = False
    """Whether σ → 0 makes it infinite, so that a point cannot stand beside Gaussians."""
    is_log_probability: ClassVar[bool] = False
    """Whether it is the log of a match probability."""

    @property
    def name(self) -> str:
        """The registered name, or that of the class."""
        try:
            return registry.name_of(type(self))
        except ConfigError:
            return type(self).__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields by name."""
        fields: tuple[dataclasses.Field[Any], ...] = ()
        if dataclasses.is_dataclass(self):
            fields = dataclasses.fields(self)
        return {field.name: getattr(self, field.name) for field in fields}

    def record(self) -> dict[str, object]:
        """What `registry.from_record` makes it of: {"kind": name, **parameters}."""
        return {"kind": registry.name_of(type(self)), **self.parameters}

    @property
    def max_points(self) -> int | None:
        """The most points per item that it compares: 0 for Gaussians only, None for any number."""
        return 0

    @property
    def positional(self) -> bool:
        """Whether Gaussians are sampled, so that a value depends on an item's position."""
        return False

    def takes(self, items: Embedding) -> bool:
        """Whether it compares such items.

        >>> from pcme.embedding import Points
        >>> points = Points(torch.zeros(1, 2, 3))
        >>> registry.create("nearest").takes(points), registry.create("kl").takes(points)
        (True, False)
        """
        most = self.max_points
        return isinstance(items, Gaussian) or most is None or items.x.shape[1] <= most

    def require_taken(self, items: Embedding) -> None:
        """Raise a `ShapeError` that names the scores which take such items."""
        if not self.takes(items):
            raise _not_taken(self, items)

    def suited_to(self, items: Embedding) -> "Score":
        """The same score with parameters that take such items, where there are any."""
        return self

    def cost(self, items: Embedding) -> Cost:
        """Space per gallery item and work per pair, for items like these.

        >>> items = Gaussian(torch.zeros(1, 512), torch.zeros(1, 512))
        >>> registry.create("w2").cost(items)
        Cost(numbers=1024, bytes=4096, space='O(2N)', work=1024)
        >>> registry.create("average_l2", samples=7).cost(items)
        Cost(numbers=3584, bytes=14336, space='O(JN)', work=25088)
        """
        one = items[:1]
        plan = self.plan(one, one)
        own = sum(getattr(one, part).numel() for part in one.STORED)
        sampled = self.positional and isinstance(items, Gaussian)
        numbers = plan.numbers if sampled else min(own, plan.numbers or own)
        vectors = round(numbers / one.dim)
        space = "O(JN)" if sampled else "O(N)" if vectors == 1 else f"O({vectors}N)"
        return Cost(numbers, numbers * one.dtype.itemsize, space, plan.work)

    def for_single_points(self) -> "Score":
        """The same score for items of a single point each, as an index holds them."""
        return self

    def scan(self, gallery: Gallery, *, exact: bool = True) -> Scan[Any, Any]:
        """The scan that finds the best items of a gallery; without `exact` it need not prove."""
        return Scan(self.plan, gallery)

    def ann(self, dim: int) -> Ann | None:
        """The vectors by which an L2 engine proposes items; None where it cannot."""
        return None

    @abstractmethod
    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """The formula for broadcastable pairs [..., D] → [...], in float64."""

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """How a block is computed; by default `pairs`, broadcast."""
        return PairsPlan(self.pairs, require_gaussian(self, queries), require_gaussian(self, gallery))

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
        out: Float[Tensor, "q g"] | None = None,
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
        self, queries: Embedding, gallery: Embedding, *, k: int, exact: bool = True, memory_limit: int = MEMORY_LIMIT
    ) -> Ranking:
        """The k best items of each query: the ids that the full matrix would give.

        Scores that are (or are bounded by) a matrix product are shortlisted in single precision and re-ranked exactly;
        a query is accepted only when the bound proves that nothing was missed, else its list grows. `exact=False` drops
        the proof for the density scores (elk, overlap, bhattacharyya), whose recall is measured in `make bench`.
        """
        require_comparable(queries, gallery)
        if not 1 <= k <= len(gallery):
            raise ConfigError(f"k must be between 1 and the gallery's {len(gallery)} items, got {k}.")
        for items in (queries, gallery):
            self.require_taken(items)
        scan = self.scan(Fixed(gallery.detach()), exact=exact)
        ids, scores = scan.ranking(queries.detach(), k, memory_limit=memory_limit)
        return Ranking(ids, scores, gallery_size=len(gallery))

    @torch.no_grad()
    def each(self, query: Embedding, items: Embedding) -> Float[Tensor, " n"]:
        """The scores of a single query: pair by pair for few items, by products for many."""
        return score_one(self.plan(query, items))

    def probability(self, queries: Embedding, gallery: Embedding) -> Float[Tensor, "q g"]:
        """The match probability in [0, 1]: exp of a score that is the log of one."""
        self.require_log_probability("probability")
        return self(queries, gallery).exp_()

    def require_log_probability(self, purpose: str) -> None:
        """Raise a `ConfigError` that names the scores which are match probabilities."""
        if not self.is_log_probability:
            known = ", ".join(_names(lambda score: score.is_log_probability))
            raise ConfigError(f"{purpose}: {type(self).__name__} is not a match probability. Use one of: {known}.")


class LiftedScore(Score, ABC):
    """A score that is an inner product of lifted vectors, so any vector engine can serve it."""

    @abstractmethod
    def lift(self, items: Normal, side: Side) -> Lifted:
        """Vectors and offsets with ⟨v₁, v₂⟩ + o₁ + o₂ = pairs(p, q)."""

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """One matrix product per block."""
        return LiftedPlan(self.pairs, self.lift, require_gaussian(self, queries), require_gaussian(self, gallery))

    def scan(self, gallery: Gallery, *, exact: bool = True) -> Scan[Any, Any]:
        """Keys by the same product in single precision."""
        return LiftedScan(self.plan, gallery, self.lift)


registry: Registry[Score] = Registry("score", "pcme.scores")


def require_gaussian(score: Score, items: Embedding) -> Gaussian:
    """The items, or an error that names the scores which take points."""
    if not isinstance(items, Gaussian):
        raise _not_taken(score, items)
    return items


def require_logit(name: str, scale: float, shift: float) -> None:
    """A `ConfigError` unless 0 < scale < ∞ and shift is finite."""
    if not (0 < scale < math.inf and math.isfinite(shift)):
        raise ConfigError(f"{name}: scale must be finite and > 0 and shift finite, got {scale} and {shift}.")


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


def _not_taken(score: Score, items: Embedding) -> ShapeError:
    known = _names(lambda score: score.suited_to(items).takes(items))
    return ShapeError(
        f"{type(score).__name__} does not compare {type(items).__name__} with "
        f"{items.points().shape[1]} per item. Use one of: {', '.join(known)}."
    )


def _names(fits: Callable[[Score], bool]) -> list[str]:
    """The registered scores of which something holds."""
    return [name for name in registry.names() if fits(registry.create(name))]


def _empty(shape: tuple[int, int], like: Embedding) -> Float[Tensor, "q g"]:
    return torch.empty(shape, dtype=like.dtype)
