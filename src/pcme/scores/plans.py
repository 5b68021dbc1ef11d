"""Plans: how a block of scores is computed for one call's queries and gallery.

A `Plan` gives any block of exact scores, and the same numbers for a list of candidates. `PairsPlan` broadcasts a
formula, `LiftedPlan` is one matrix product, `SquashedPlan` a monotone function of one, and `SampledPlan` one product
over stacked samples; two families bring their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcme.embedding import Embedding, Gaussian
from pcme.kernels import sampled

MEMORY_LIMIT = 512 << 20
"""Default cap, in bytes, on the temporaries of one call (the result itself not counted)."""
QUERY_ROWS = 1024
"""Queries in a block at the most; the gallery's part of a block grows to fill the cap."""
CACHE_BYTES = 16 << 20
"""Temporaries of a step that several passes go over: small enough to stay near the cache."""
COLUMNS = 48
"""A product is given a multiple of so many columns: a remainder goes through other code of the libraries, which rounds
otherwise, and equal items would differ by where they stand."""

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
        offsets = self.offset[:, None] + whole_columns(items.offset)
        padded = torch.addmm(offsets, self.vectors, whole_columns(items.vectors).T)
        return padded[:, : len(items.offset)]


Formula = Callable[[Normal, Normal], Float[Tensor, "*n"]]
Lift = Callable[[Normal, Side], Lifted]
Squash = Callable[[Float[Tensor, "*n"]], Float[Tensor, "*n"]]
Reduce = Callable[[sampled.Queries, sampled.Items], sampled.Pairs]


@dataclass(frozen=True)
class Cost:
    """Cost of one gallery item and of one pair, read off the plan that computes a score.

    Paper: Table 1 (space). Differs: sampling stores J vectors per item, O(JN); J² is its work, not its space.
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
    lists: ClassVar[bool] = True
    """Whether `candidates` is there."""
    bytes_per_pair: int
    bytes_per_item: int = 0
    bytes_per_query: int = 0
    bytes_per_candidate: int = 0

    def __init__(self, queries: Embedding, gallery: Embedding) -> None:
        self.queries, self.gallery = queries, gallery

    @abstractmethod
    def block(self, rows: Rows, columns: slice) -> Float[Tensor, "q g"]:
        """Exact scores of some queries against some items."""

    def candidates(self, rows: Int[Tensor, " q"], ids: Int[Tensor, "q m"]) -> Float[Tensor, "q m"]:
        """The same numbers for a list of items per query, where `lists` says so."""
        raise NotImplementedError


class PairsPlan(Plan):
    """`Score.pairs`, broadcast in blocks."""

    def __init__(self, pairs: Formula, queries: Gaussian, gallery: Gaussian) -> None:
        super().__init__(queries, gallery)
        self.pairs, self.left, self.right = pairs, queries, gallery
        self.bytes_per_pair = self.bytes_per_candidate = 8 * 8 * queries.dim

    def block(self, rows: Rows, columns: slice) -> Float[Tensor, "q g"]:
        """[q, 1, D] against [g, D]."""
        return self.pairs(self._column(rows), normal(self.right[columns]))

    def candidates(self, rows: Int[Tensor, " q"], ids: Int[Tensor, "q m"]) -> Float[Tensor, "q m"]:
        """[q, 1, D] against the gathered [q, m, D]."""
        right = normal(self.right[ids.reshape(-1)])
        shape = (*ids.shape, self.right.dim)
        return self.pairs(self._column(rows), Normal(right.mean.reshape(shape), right.log_sigma.reshape(shape)))

    def _column(self, rows: Rows) -> Normal:
        left = normal(self.left[rows])
        return Normal(left.mean[:, None], left.log_sigma[:, None])


class LiftedPlan(PairsPlan):
    """Blocks by one float64 product of lifted vectors."""

    def __init__(self, pairs: Formula, lift: Lift, queries: Gaussian, gallery: Gaussian) -> None:
        super().__init__(pairs, queries, gallery)
        self.lift = lift
        self.width = lift(normal(queries[:1]), "query").vectors.shape[1]
        self.numbers, self.work = self.width + 1, self.width  # the vector and its offset
        self.bytes_per_pair, self.bytes_per_item = 16, 8 * (2 * self.width + 4 * queries.dim)

    def block(self, rows: Rows, columns: slice) -> Float[Tensor, "q g"]:
        """One product in float64."""
        left = self._lift(self.left[rows], "query")
        return left.products(self._lift(self.right[columns], "item"))

    @cached_property
    def _centre(self) -> Float[Tensor, " d"]:
        """A translation changes no score of this package and shrinks what cancels in products."""
        return self.right.mean.mean(0).double()

    def _lift(self, items: Gaussian, side: Side) -> Lifted:
        part = normal(items)
        return self.lift(Normal(part.mean - self._centre, part.log_sigma), side)


class SquashedPlan(LiftedPlan):
    """A monotone function of a lifted score."""

    def __init__(self, squash: Squash, pairs: Formula, lift: Lift, queries: Gaussian, gallery: Gaussian) -> None:
        super().__init__(pairs, lift, queries, gallery)
        self.squash = squash
        self.bytes_per_pair += 16

    def block(self, rows: Rows, columns: slice) -> Float[Tensor, "q g"]:
        """One product, squashed."""
        return self.squash(super().block(rows, columns))

    def candidates(self, rows: Int[Tensor, " q"], ids: Int[Tensor, "q m"]) -> Float[Tensor, "q m"]:
        """The formula, squashed."""
        return self.squash(super().candidates(rows, ids))


class SampledPlan(Plan):
    """All J² distances of a block from one product over the samples, then a reduction."""

    lists: ClassVar[bool] = False

    def __init__(self, reduce: Reduce, queries: Embedding, gallery: Embedding, *, samples: int, seed: int) -> None:
        super().__init__(queries, gallery)
        self.reduce, self.samples, self.seed = reduce, samples, seed
        j, k = (samples if isinstance(items, Gaussian) else items.x.shape[1] for items in (queries, gallery))
        self.numbers, self.work = k * gallery.dim, j * k * gallery.dim
        self.bytes_per_pair = 16 * j * k
        self.bytes_per_item, self.bytes_per_query = 24 * k * gallery.dim, 24 * j * queries.dim

    def block(self, rows: Rows, columns: slice) -> Float[Tensor, "q g"]:
        """In strips of items that stay in the cache."""
        assert isinstance(rows, slice)  # a sample belongs to a position
        x = self._draw(self.queries, rows, "query")
        start, stop, _ = columns.indices(len(self.gallery))
        step = max(1, CACHE_BYTES // (len(x) * self.bytes_per_pair))
        strips = (slice(i, min(stop, i + step)) for i in range(start, stop, step))
        parts = [self.reduce(x, self._draw(self.gallery, strip, "item")) for strip in strips]
        return torch.cat(parts, 1)

    def _draw(self, items: Embedding, rows: slice, side: Side) -> Float[Tensor, "n j d"]:
        return sampled.draw(items, rows, self.samples, seed=self.seed, side=side)


def whole_columns(items: Float[Tensor, "g ..."]) -> Float[Tensor, "p ..."]:
    """The items, and zeros up to a multiple of COLUMNS."""
    missing = -len(items) % COLUMNS
    return torch.cat((items, items.new_zeros(missing, *items.shape[1:]))) if missing else items


def mean_distance(queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
    """−‖μ₁−μ₂‖²."""
    return -(queries.mean - gallery.mean).square().sum(-1)


def expected_distance(queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
    """−E‖z₁−z₂‖² = −‖μ₁−μ₂‖² − Σ(σ₁²+σ₂²)."""
    spread = queries.variance.sum(-1) + gallery.variance.sum(-1)
    return mean_distance(queries, gallery) - spread


def lift_mean(items: Normal, side: Side) -> Lifted:
    """The lift of `mean_distance`, D + 1 numbers."""
    return lift_l2(items.mean, torch.zeros_like(items.mean[:, 0]), side)


def lift_expected(items: Normal, side: Side) -> Lifted:
    """The lift of `expected_distance`, D + 1 numbers."""
    return lift_l2(items.mean, items.variance.sum(-1), side)


def lift_l2(x: Float[Tensor, "n d"], offset: Float[Tensor, " n"], side: Side) -> Lifted:
    """The lift of −‖x₁−x₂‖² − own₁ − own₂."""
    return Lifted(2 * x if side == "query" else x, -(x.square().sum(-1) + offset))


def single_points(items: Embedding) -> Gaussian:
    """Points with K = 1 as Gaussians whose σ nobody asks for."""
    mean = items.points()[:, 0]
    return Gaussian(mean, torch.zeros_like(mean[:, :1]))


def normal(items: Gaussian) -> Normal:
    """float64 copies, isotropic σ expanded."""
    log_sigma = items.log_sigma.detach().to(torch.float64)
    return Normal(items.mean.detach().to(torch.float64), log_sigma.expand(items.mean.shape))


def query_blocks(plan: Plan, memory_limit: int, *, whole_rows: bool) -> Iterator[slice]:
    """Few enough queries that a block fits; whole rows of results too when they are yielded."""
    total = len(plan.queries)
    per_row = plan.bytes_per_query + (8 * len(plan.gallery) if whole_rows else plan.bytes_per_pair)
    step = max(1, min(QUERY_ROWS, memory_limit // 4 // max(1, per_row)))
    return (slice(i, min(total, i + step)) for i in range(0, total, step))


def item_blocks(plan: Plan, rows: int, memory_limit: int) -> Iterator[slice]:
    """As many items as fit beside `rows` queries."""
    total = len(plan.gallery)
    step = max(1, memory_limit // 2 // (rows * plan.bytes_per_pair + plan.bytes_per_item))
    return (slice(i, min(total, i + step)) for i in range(0, total, step))


def gaussian(items: Embedding) -> Gaussian:
    """The items of a score that takes Gaussians only, which it has made sure of."""
    assert isinstance(items, Gaussian)
    return items
