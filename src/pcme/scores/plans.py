"""Plans: how a block of scores is computed for one call's queries and gallery.

A `Plan` gives any block of exact scores, the same numbers for a list of candidates, and, where
the algebra allows, a `Shortlist` for `topk`. `PairsPlan` broadcasts a formula, `LiftedPlan` is one
matrix product, `SampledPlan` one product over stacked samples; two scores bring their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcme.embedding import Embedding, Gaussian
from pcme.kernels import sampled

QUERY_ROWS = 1024
"""Queries in a block at the most; the gallery's part of a block grows to fill the cap."""
CACHE_BYTES = 16 << 20
"""Temporaries of a step that several passes go over: small enough to stay near the cache."""

COLUMNS = 48
"""A product is given a multiple of so many columns: what is left over goes through other code of
the libraries, which rounds otherwise, and equal items would differ by where they stand."""

Side = Literal["query", "item"]
Rows = slice | Int[Tensor, " n"]


@dataclass(frozen=True)
class Normal:
    """Means and log σ with any leading axes: what a formula sees."""

    mean: Float[Tensor, "*n d"]
    log_sigma: Float[Tensor, "*n d"]

    @property
    def variance(self) -> Float[Tensor, "*n d"]:
        """σ²."""
        return (2 * self.log_sigma).exp()

    @property
    def sigma(self) -> Float[Tensor, "*n d"]:
        """σ."""
        return self.log_sigma.exp()


@dataclass(frozen=True)
class Lifted:
    """Vectors and offsets whose ⟨v₁, v₂⟩ + o₁ + o₂ is the score of a pair."""

    vectors: Float[Tensor, "n l"]
    offset: Float[Tensor, " n"]

    def products(self, items: "Lifted") -> Float[Tensor, "q g"]:
        """All scores; those of equal items are equal."""
        own = self.offset[:, None] + whole_columns(items.offset)
        found = torch.addmm(own, self.vectors, whole_columns(items.vectors).T)
        return found[:, : len(items.offset)]


@dataclass(frozen=True)
class Shortlist:
    """Keys that are one float32 matrix product, and what they promise about the score."""

    queries: Float[Tensor, "q l"]
    items: Callable[[slice], Lifted]
    """Offsets of the items count; the queries' do not, a key need only order one query's items."""
    width: int
    """How many candidates to begin with."""
    upper: Callable[[Tensor, Tensor], Tensor]
    """(rows, keys) → an upper bound on the score of any item whose computed key is not larger."""
    bounded: bool = True
    """False where `upper` promises nothing, so that the shortlist serves `exact=False` only."""


Formula = Callable[[Normal, Normal], Tensor]
Lift = Callable[[Normal, Side], Lifted]


@dataclass(frozen=True)
class Cost:
    """The cost of one gallery item and of one pair, read off the plan that computes a score.

    Paper: Table 1 (space). Differs: sampling stores J vectors per item, O(JN); J² is its work, not
    its space.
    """

    numbers: int
    """Stored per item: the fewer of what the item is and what the score makes of it."""
    bytes: int
    """The same in the embedding's precision."""
    space: str
    """Of a gallery of N items, in vectors: O(N), O(2N), O(JN)."""
    work: int | None
    """Multiply-adds per pair that grow with the dimension; None where only a formula is known."""


class Plan(ABC):
    """One call's queries and gallery, ready to give any block of exact scores."""

    numbers: int = 0
    """Numbers that are made of an item; 0: none but its own."""
    work: int | None = None
    """Multiply-adds per pair."""
    bytes_per_pair: int
    bytes_per_item: int = 0
    bytes_per_query: int = 0
    bytes_per_candidate: int = 0

    def __init__(self, queries: Embedding, gallery: Embedding) -> None:
        self.queries, self.gallery = queries, gallery

    @abstractmethod
    def block(self, rows: Rows, columns: slice) -> Float[Tensor, "q g"]:
        """Exact scores of some queries against some items."""

    def candidates(self, rows: Tensor, ids: Int[Tensor, "q m"]) -> Float[Tensor, "q m"]:
        """The same numbers for a list of items per query; needed where `shortlist` is."""
        raise NotImplementedError

    def shortlist(self, k: int) -> Shortlist | None:
        """A cheap first stage for `topk`, if there is one."""
        return None


class PairsPlan(Plan):
    """`Score.pairs`, broadcast in blocks."""

    def __init__(self, pairs: Formula, queries: Gaussian, gallery: Gaussian) -> None:
        super().__init__(queries, gallery)
        self.pairs = pairs
        self.bytes_per_pair = self.bytes_per_candidate = 8 * 8 * queries.dim

    def block(self, rows: Rows, columns: slice) -> Tensor:
        """[q, 1, D] against [g, D]."""
        left = normal(_gaussian(self.queries)[rows])
        return self.pairs(
            Normal(left.mean[:, None], left.log_sigma[:, None]),
            normal(_gaussian(self.gallery)[columns]),
        )

    def candidates(self, rows: Tensor, ids: Tensor) -> Tensor:
        """[q, 1, D] against the gathered [q, m, D]."""
        left = normal(_gaussian(self.queries)[rows])
        right = normal(_gaussian(self.gallery)[ids.reshape(-1)])
        shape = (*ids.shape, right.mean.shape[-1])
        return self.pairs(
            Normal(left.mean[:, None], left.log_sigma[:, None]),
            Normal(right.mean.reshape(shape), right.log_sigma.reshape(shape)),
        )


class LiftedPlan(PairsPlan):
    """float64 products for blocks; float32 products with a rounding bound for shortlists."""

    def __init__(self, pairs: Formula, lift: Lift, queries: Gaussian, gallery: Gaussian) -> None:
        super().__init__(pairs, queries, gallery)
        self.lift = lift
        # Translation changes no score of this package and shrinks what cancels in the products.
        self.centre = gallery.mean.mean(0)
        self.width = lift(normal(queries[:1]), "query").vectors.shape[1]
        self.numbers, self.work = self.width + 1, self.width  # the vector and its offset
        self.bytes_per_pair, self.bytes_per_item = 16, 8 * (2 * self.width + 4 * queries.dim)

    def block(self, rows: Rows, columns: slice) -> Tensor:
        """One product."""
        left = self._lift(self.queries, rows, "query", torch.float64)
        return left.products(self._lift(self.gallery, columns, "item", torch.float64))

    def shortlist(self, k: int) -> Shortlist:
        """The same in float32, and its worst rounding error: γ (‖v₁‖ ‖v₂‖ + |o₂|), γ = n u."""
        left = self._lift(self.queries, slice(None), "query", torch.float32)
        norms, offsets = left.vectors.double().norm(dim=1), left.offset.double()
        largest = {"norm": 0.0, "offset": 0.0}

        def items(columns: slice) -> Lifted:
            part = self._lift(self.gallery, columns, "item", torch.float32)
            largest["norm"] = max(largest["norm"], float(part.vectors.norm(dim=1).max()))
            largest["offset"] = max(largest["offset"], float(part.offset.abs().max()))
            return part

        def upper(rows: Tensor, keys: Tensor) -> Tensor:
            size: Tensor = norms[rows] * largest["norm"] + largest["offset"] + offsets[rows].abs()
            return keys + offsets[rows] + 1.01 * (self.width + 8) * 2.0**-24 * size

        return Shortlist(left.vectors, items, width=k + 32, upper=upper)

    def _lift(self, items: Embedding, rows: Rows, side: Side, dtype: torch.dtype) -> Lifted:
        part = _gaussian(items)[rows]
        mean = part.mean.to(dtype) - self.centre.to(dtype)
        return self.lift(Normal(mean, part.log_sigma.to(dtype).expand_as(mean)), side)


class SampledPlan(Plan):
    """All J² distances of a block from one product over the samples, then a reduction."""

    def __init__(
        self,
        reduce: Callable[[Float[Tensor, "q j d"], Float[Tensor, "g k d"]], Float[Tensor, "q g"]],
        queries: Embedding,
        gallery: Embedding,
        *,
        samples: int,
        seed: int,
    ) -> None:
        super().__init__(queries, gallery)
        self.reduce, self.samples, self.seed = reduce, samples, seed
        counts = [_points_each(items, samples) for items in (queries, gallery)]
        self.numbers, self.work = counts[1] * gallery.dim, counts[0] * counts[1] * gallery.dim
        self.bytes_per_pair = 16 * counts[0] * counts[1]
        self.bytes_per_item = 24 * counts[1] * gallery.dim
        self.bytes_per_query = 24 * counts[0] * queries.dim

    def block(self, rows: Rows, columns: slice) -> Tensor:
        """In strips of items that stay in the cache."""
        assert isinstance(rows, slice)  # a sample belongs to a position
        x = self._draw(self.queries, rows, "query")
        start, stop, _ = columns.indices(len(self.gallery))
        step = max(1, CACHE_BYTES // (len(x) * self.bytes_per_pair))
        strips = (slice(i, min(stop, i + step)) for i in range(start, stop, step))
        parts = [self.reduce(x, self._draw(self.gallery, strip, "item")) for strip in strips]
        return torch.cat(parts, 1)

    def _draw(self, items: Embedding, rows: slice, side: Side) -> Tensor:
        return sampled.draw(items, rows, self.samples, seed=self.seed, side=side)


def whole_columns(items: Float[Tensor, "g ..."]) -> Float[Tensor, "p ..."]:
    """The items and as many zeros as a multiple of COLUMNS takes.

    >>> whole_columns(torch.ones(50, 3)).shape
    torch.Size([96, 3])
    """
    missing = -len(items) % COLUMNS
    return torch.cat((items, items.new_zeros(missing, *items.shape[1:]))) if missing else items


def lift_l2(x: Float[Tensor, "n d"], own: Float[Tensor, " n"], side: Side) -> Lifted:
    """The lift of −‖x₁−x₂‖² − own₁ − own₂."""
    return Lifted(2 * x if side == "query" else x, -(x.square().sum(-1) + own))


def normal(items: Gaussian) -> Normal:
    """float64 copies, isotropic σ expanded."""
    log_sigma = items.log_sigma.detach().to(torch.float64)
    return Normal(items.mean.detach().to(torch.float64), log_sigma.expand(items.mean.shape))


def query_blocks(plan: Plan, memory_limit: int, *, whole_rows: bool) -> Iterator[slice]:
    """Few enough queries that a block fits; whole rows of results too when they are yielded."""
    total = len(plan.queries)
    per_row = 8 * len(plan.gallery) if whole_rows else plan.bytes_per_pair
    per_row += plan.bytes_per_query
    step = max(1, min(QUERY_ROWS, memory_limit // 4 // max(1, per_row)))
    yield from (slice(i, min(total, i + step)) for i in range(0, total, step))


def item_blocks(plan: Plan, rows: int, memory_limit: int) -> Iterator[slice]:
    """As many items as fit beside `rows` queries."""
    total = len(plan.gallery)
    step = max(1, memory_limit // 2 // (rows * plan.bytes_per_pair + plan.bytes_per_item))
    yield from (slice(i, min(total, i + step)) for i in range(0, total, step))


def _gaussian(items: Embedding) -> Gaussian:
    assert isinstance(items, Gaussian)  # plans of Gaussian scores are built from Gaussians
    return items


def _points_each(items: Embedding, samples: int) -> int:
    return samples if isinstance(items, Gaussian) else items.x.shape[1]
