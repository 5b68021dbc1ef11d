"""The match probability of Eq. (2)–(3), analytic (J → ∞) or sampled."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError
from pcme.kernels import analytic, compiled, sampled
from pcme.scores.base import Score, registry, require_gaussian
from pcme.scores.plans import (
    COLUMNS,
    Lifted,
    LiftedPlan,
    Normal,
    Plan,
    Rows,
    SampledPlan,
    Shortlist,
    Side,
    lift_l2,
    whole_columns,
)


@registry.register("match_prob")
@dataclass(frozen=True)
class MatchProbability(Score):
    """log E[sigmoid(b − a ‖z₁−z₂‖)]: log match probability; method "analytic" (J → ∞) or "sampled".

    Paper: Eq. (2)–(3), Table 1 "Match prob". Differs: the standard sigmoid and a > 0 (ERRATA 1), so
    the defaults a = b = 10 are what the paper calls −5 and 5. Takes Points when sampled.
    """

    scale: float = 10.0
    shift: float = 10.0
    method: Literal["analytic", "sampled"] = "analytic"
    samples: int = 7
    seed: int = 0
    symmetric: ClassVar[bool] = True
    is_log_probability: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.method not in ("analytic", "sampled"):
            raise ConfigError(
                f'match_prob: unknown method "{self.method}". Use "analytic" or "sampled".'
            )
        finite = 0 < self.scale < math.inf and math.isfinite(self.shift)
        if not finite or self.samples < 1:
            raise ConfigError(
                "match_prob needs a finite scale > 0, a finite shift and samples ≥ 1, "
                f"got {self.scale}, {self.shift} and {self.samples}."
            )

    @property
    def max_points(self) -> int | None:
        """Any number when sampled."""
        return None if self.positional else 0

    @property
    def positional(self) -> bool:
        """When sampled."""
        return self.method == "sampled"

    def suited_to(self, items: Embedding) -> "MatchProbability":
        """Points stand for their samples."""
        return self if isinstance(items, Gaussian) else replace(self, method="sampled")

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """The analytic form (`pcme.kernels.analytic`)."""
        return analytic.log_match_pairs(
            (queries.mean, queries.variance),
            (gallery.mean, gallery.variance),
            *self.scale_and_shift,
        )

    @property
    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """(a, b) as float64 scalars."""
        a, b = torch.tensor([self.scale, self.shift], dtype=torch.float64)
        return a, b

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """Six matrix products, or one over the stacked samples."""
        if self.method == "analytic":
            left, right = require_gaussian(self, queries), require_gaussian(self, gallery)
            return AnalyticPlan(self, left, right)

        def reduce(x: Tensor, y: Tensor) -> Tensor:
            return sampled.log_match(x, y, self.scale, self.shift)

        return SampledPlan(reduce, queries, gallery, samples=self.samples, seed=self.seed)


class AnalyticPlan(Plan):
    """Six float64 products a block; `topk` by the expected squared distance (csd) and a bound."""

    def __init__(self, score: MatchProbability, queries: Gaussian, gallery: Gaussian) -> None:
        super().__init__(queries, gallery)
        self.score, self.left, self.right = score, queries, gallery
        self.work = PRODUCTS * queries.dim
        self.bytes_per_pair, self.bytes_per_item = 8 * 40, 8 * 16 * queries.dim
        self.centre = gallery.mean.mean(0).double()
        size = gallery.mean.numel() * gallery.mean.element_size()
        self.keeps_variances = size <= CACHED_VARIANCE and 512 * len(queries) >= len(gallery)
        self.bytes_per_candidate = 8 * 40 + (0 if self.keeps_variances else 24 * queries.dim)

    def block(self, rows: Rows, columns: slice) -> Tensor:
        """Moments in strips of items whose temporaries the allocator can keep, then one pass."""
        start, stop, _ = columns.indices(len(self.right))
        step = COLUMNS * max(1, SMALL_BYTES // (32 * self.left.dim * COLUMNS))
        left = self._factors(self.left[rows])
        strips = (self.right[i : min(stop, i + step)] for i in range(start, stop, step))
        parts = [self._moments(left, strip) for strip in strips]

        def gather(flat: Tensor) -> analytic.Side:
            query, item = flat // (stop - start), flat % (stop - start)
            return _pairs(self.left[rows][query], self.right[columns][item])

        moments = analytic.Moments.cat(parts)
        return analytic.score_pairs(moments, gather, *self.score.scale_and_shift)

    def _moments(self, left: analytic.Factors, items: Gaussian) -> analytic.Moments:
        whole = Gaussian(whole_columns(items.mean), whole_columns(items.log_sigma))
        return left.moments(self._factors(whole)).columns(len(items))

    def _factors(self, items: Gaussian) -> analytic.Factors:
        return analytic.Factors.of(_float64(items), self.centre)

    def candidates(self, rows: Tensor, ids: Int[Tensor, "q m"]) -> Tensor:
        """Their moments by a compiled loop; the same numbers as `block` to float64's rounding."""
        left, (means, variances, places) = self.left[rows], self._items(ids)

        def gather(flat: Tensor) -> analytic.Side:
            query, item = flat // ids.shape[1], places.reshape(-1)[flat]
            delta = left.mean[query].double() - means[item].double()
            return delta, _variance(left)[query].double() + variances[item].double()

        sums = compiled.pair_moments(
            (_rows(left.mean), _rows(_variance(left))),
            (_rows(means), _rows(variances)),
            places.numpy(),
            torch.get_num_threads(),
        )
        moments = analytic.Moments(*torch.from_numpy(sums))
        return analytic.score_pairs(moments, gather, *self.score.scale_and_shift)

    def shortlist(self, k: int) -> Shortlist | None:
        """Keys: −csd. Bound: the narrow rule at the most favourable variance that a csd allows."""
        if self.left.mean.device.type != "cpu":
            return None
        keys = LiftedPlan(_expected_distance, _lift, self.left, self.right).shortlist(k)
        limits = self._limits()

        def upper(rows: Tensor, found: Tensor) -> Tensor:
            return analytic.upper_log_match(
                -keys.upper(rows, found), limits[rows], *self.score.scale_and_shift
            )

        return Shortlist(keys.queries, keys.items, width=96 * k + 576, upper=upper)

    def _items(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(means, variances, where each candidate lies in them)."""
        if self.keeps_variances:
            return self.right.mean, self._all_variances, ids
        part = self.right[ids.reshape(-1)]
        return part.mean, _variance(part), torch.arange(ids.numel()).reshape(ids.shape)

    @cached_property
    def _all_variances(self) -> Tensor:
        return _variance(self.right)

    def _limits(self) -> analytic.Limits:
        """What is known of every pair of a query before looking at the item.

        With s̄ the mean of s over the dimensions, Σ Δ² s = s̄ Σ Δ² + Σ Δ² (s − s̄), whose last sum
        is ≤ ‖Δ‖₄² ‖s − s̄‖ (Cauchy–Schwarz); the norms of both sides add (Minkowski).
        """
        centre, step = self.right.mean.mean(0), max(1, SMALL_BYTES // (4 * self.right.dim))
        parts = [_extent(self.right[i : i + step], centre) for i in range(0, len(self.right), step)]
        items, own = torch.cat(parts, 1), _extent(self.left, centre)
        least, most = items.amin(1) / ROUNDING, items.amax(1) * ROUNDING
        spread, spread2, widest, uneven, norm4 = own * ROUNDING
        return analytic.Limits(
            least_spread=own[0] / ROUNDING + least[0],
            most_spread=spread + most[0],
            most_spread2=(spread2.sqrt() + most[1].sqrt()).square(),
            most_uneven=(norm4 + most[4]).square() * (uneven + most[3]),
            widest=widest + most[2],
            dim=self.left.dim,
        )


PRODUCTS = 6
"""Matrix products of the analytic rule (`analytic.Factors.moments`)."""
ROUNDING = 1.001
"""Covers the single-precision sums behind the limits."""
SMALL_BYTES = 4 << 20
"""Temporaries that the allocator keeps for reuse; larger ones are paged in anew each time."""
CACHED_VARIANCE = 256 << 20
"""Largest array of item variances that a `topk` keeps, in bytes; beyond it they are made anew."""


def _variance(items: Gaussian) -> Tensor:
    """σ², at least the smallest number that float32 holds: 0 would leave no spread to divide by."""
    return items.variance.clamp_min(torch.finfo(torch.float32).tiny)


def _float64(items: Gaussian) -> analytic.Side:
    """Variances in the embeddings' own precision, then widened: the same numbers on every path."""
    return items.mean.double(), _variance(items).double()


def _pairs(left: Gaussian, right: Gaussian) -> analytic.Side:
    """(Δ, s) of paired items."""
    (m1, v1), (m2, v2) = _float64(left), _float64(right)
    return m1 - m2, v1 + v2


def _rows(x: Tensor) -> compiled.Array:
    return x.contiguous().numpy()


def _extent(items: Gaussian, centre: Tensor) -> Float[Tensor, "5 n"]:
    """Σ σ², Σ σ⁴, max σ², ‖σ² − mean σ²‖ and ‖μ − centre‖₄ of each item."""
    variance = _variance(items)
    uneven = (variance - variance.mean(-1, keepdim=True)).square().sum(-1).sqrt()
    norm4 = (items.mean - centre).square().square().sum(-1).sqrt().sqrt()
    sums = (variance.sum(-1), variance.square().sum(-1), variance.amax(-1))
    return torch.stack((*sums, uneven, norm4)).double()


def _expected_distance(queries: Normal, gallery: Normal) -> Tensor:
    spread = queries.variance.sum(-1) + gallery.variance.sum(-1)
    return -(queries.mean - gallery.mean).square().sum(-1) - spread


def _lift(items: Normal, side: Side) -> Lifted:
    return lift_l2(items.mean, items.variance.sum(-1), side)
