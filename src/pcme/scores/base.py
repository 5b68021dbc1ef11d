"""`Score`: two sets of embeddings → [Q, G], higher is better, always; and its exact top-k.

To add a score, write one class with `pairs`, the textbook formula (CONTRIBUTING.md). It inherits blocks under a memory
cap, `topk`, the command line's list and the conformance tests. A score that is an inner product adds `lift`; one with a
faster way to a block of scores overrides `plan`.

Precision: values are computed in float64 (densities and samples: in the embeddings' own precision) and rounded to the
embeddings' dtype. Ties, that is equal rounded values, go to the lower id.

Devices: scores are computed where the embeddings are, or on the CPU where there is no float64. The shortlists of
`topk` are made by compiled loops: on other devices every item is scored, and the result is on the CPU.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.core.registry import Registry
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError, ShapeError
from pcme.kernels.devices import has_float64, uses_compiled
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
    gaussian,
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
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

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

    def require_taken(self, *sides: Embedding) -> None:
        """Raise a `ShapeError` that names the scores which take such items."""
        for items in sides:
            if not self.takes(items):
                known = ", ".join(n for n in registry.names() if registry.create(n).suited_to(items).takes(items))
                raise ShapeError(
                    f"{type(self).__name__} does not compare {type(items).__name__} with {items.points().shape[1]} per "
                    f"item. Use one of: {known}."
                )

    def gaussians(self, queries: Embedding, gallery: Embedding) -> tuple[Gaussian, Gaussian]:
        """Both sides, for a score that takes nothing else."""
        self.require_taken(queries, gallery)
        return gaussian(queries), gaussian(gallery)

    def suited_to(self, items: Embedding) -> "Score":
        """The same score with parameters that take such items, where there are any."""
        return self

    def cost(self, items: Embedding) -> Cost:
        """Space per gallery item, and work per pair of items like these.

        >>> items = Gaussian(torch.zeros(1, 512), torch.zeros(1, 512))
        >>> registry.create("w2").cost(items)
        Cost(numbers=1024, bytes=4096, space='O(2N)', work=1024)
        >>> registry.create("average_l2", samples=7).cost(items)
        Cost(numbers=3584, bytes=14336, space='O(JN)', work=25088)
        """
        item = items[:1]
        plan = self.plan(item, item)
        stored = sum(getattr(item, part).numel() for part in item.STORED)
        sampled = self.positional and isinstance(items, Gaussian)
        numbers = plan.numbers if sampled else min(stored, plan.numbers or stored)
        vectors = round(numbers / item.dim)
        space = "O(JN)" if sampled else "O(N)" if vectors == 1 else f"O({vectors}N)"
        return Cost(numbers, numbers * item.dtype.itemsize, space, plan.work)

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
        return PairsPlan(self.pairs, *self.gaussians(queries, gallery))

    def __call__(
        self, queries: Embedding, gallery: Embedding, *, memory_limit: int = MEMORY_LIMIT
    ) -> Float[Tensor, "q g"]:
        """All scores [Q, G] in the embeddings' dtype; temporaries stay under `memory_limit`."""
        out = torch.empty((len(queries), len(gallery)), dtype=queries.dtype, device=queries.device)
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
        """(rows, scores of these queries against everything), without the matrix; with `out` [Q, G] as views of it."""
        require_comparable(queries, gallery)
        plan = self.plan(in_float64(queries), in_float64(gallery))
        for rows in query_blocks(plan, memory_limit, whole_rows=out is None):
            count = rows.stop - rows.start
            shape = (count, len(gallery))
            part = torch.empty(shape, dtype=queries.dtype, device=queries.device) if out is None else out[rows]
            for columns in item_blocks(plan, count, memory_limit):
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
        self.require_taken(queries, gallery)
        items = Fixed(in_float64(gallery))
        scan = self.scan(items, exact=exact) if uses_compiled(gallery.device) else Scan(self.plan, items)
        ids, scores = scan.ranking(in_float64(queries), k, memory_limit=memory_limit)
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
            known = ", ".join(name for name in registry.names() if registry.get(name).is_log_probability)
            raise ConfigError(f"{purpose}: {type(self).__name__} is not a match probability. Use one of: {known}.")


class LiftedScore(Score, ABC):
    """A score that is an inner product of lifted vectors, so any vector engine can serve it."""

    @abstractmethod
    def lift(self, items: Normal, side: Side) -> Lifted:
        """Vectors and offsets with ⟨v₁, v₂⟩ + o₁ + o₂ = pairs(p, q)."""

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """One matrix product per block."""
        return LiftedPlan(self.pairs, self.lift, *self.gaussians(queries, gallery))

    def scan(self, gallery: Gallery, *, exact: bool = True) -> Scan[Any, Any]:
        """Keys by the same product in single precision."""
        return LiftedScan(self.plan, gallery, self.lift)


registry: Registry[Score] = Registry("score", "pcme.scores")


def require_logit(name: str, scale: float, shift: float) -> None:
    """A `ConfigError` unless 0 < scale < ∞ and shift is finite."""
    if not (0 < scale < math.inf and math.isfinite(shift)):
        raise ConfigError(f"{name}: scale must be finite and > 0 and shift finite, got {scale} and {shift}.")


def in_float64(items: Embedding) -> Embedding:
    """The items without history, on the CPU if their device has no float64."""
    return items.detach() if has_float64(items.device) else items.detach().to("cpu")


def require_comparable(queries: Embedding, gallery: Embedding) -> None:
    """One clear error for empty, mismatched or non-finite input."""
    for name, items in (("queries", queries), ("gallery", gallery)):
        if not len(items):
            raise ShapeError(f"{name} is empty: a score needs at least one item on either side.")
        items.require_finite(name)
    if queries.dim != gallery.dim:
        raise ShapeError(
            f"queries have dimension {queries.dim} and the gallery has {gallery.dim}. Encode both with the same model."
        )
    kinds = {queries.dtype, gallery.dtype}
    devices = {queries.device, gallery.device}
    if len(kinds) > 1 or len(devices) > 1 or not kinds <= {torch.float32, torch.float64}:
        raise ShapeError(
            f"queries and gallery must both be float32 or both float64, on one device; got {queries.dtype} on "
            f"{queries.device} and {gallery.dtype} on {gallery.device}. Convert with .to(...)."
        )
