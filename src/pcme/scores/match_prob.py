"""The match probability of Eq. (2)–(3), analytic (J → ∞) or sampled."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError
from pcme.kernels import analytic, compiled, sampled
from pcme.kernels.devices import uses_compiled
from pcme.kernels.threads import Array
from pcme.scores.base import Score, registry, require_logit
from pcme.scores.distance_scan import CHUNK_BYTES, DistanceScan, MatchScan
from pcme.scores.gallery import Gallery
from pcme.scores.lifts import Ann, DistanceLift
from pcme.scores.plans import (
    COLUMNS,
    Normal,
    Plan,
    Rows,
    SampledPlan,
    SquashedPlan,
    lift_mean,
    mean_distance,
    single_points,
    whole_columns,
)
from pcme.scores.scan import Scan


@registry.register("match_prob")
@dataclass(frozen=True)
class MatchProbability(Score):
    """log E[sigmoid(b − a ‖z₁−z₂‖)]: log match probability; method "analytic" (J → ∞) or "sampled".

    Paper: Eq. (2)–(3), Table 1 "Match prob". Differs: the standard sigmoid and a > 0 (ERRATA 1), so the defaults
    a = b = 10 are what the paper calls −5 and 5. Takes Points when sampled.
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
            raise ConfigError(f'match_prob: unknown method "{self.method}". Use "analytic" or "sampled".')
        require_logit("match_prob", self.scale, self.shift)
        if self.samples < 1:
            raise ConfigError(f"match_prob: samples must be ≥ 1, got {self.samples}.")

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
            (queries.mean, queries.variance), (gallery.mean, gallery.variance), *self.scale_and_shift
        )

    @property
    def scale_and_shift(self) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """(a, b) as float64 scalars."""
        a, b = torch.tensor([self.scale, self.shift], dtype=torch.float64)
        return a, b

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """Six matrix products; one over the samples; for single points one over their means."""
        if not self.positional:
            return AnalyticPlan(self, *self.gaussians(queries, gallery))
        if _single(queries) and _single(gallery):
            return SquashedPlan(self.of, mean_distance, lift_mean, single_points(queries), single_points(gallery))
        reduce = partial(sampled.log_match, scale=self.scale, shift=self.shift)
        return SampledPlan(reduce, queries, gallery, samples=self.samples, seed=self.seed)

    def scan(self, gallery: Gallery, *, exact: bool = True) -> Scan[Any, Any]:
        """The keys of `csd`; a bound on the analytic form, a function of them for points."""
        items = gallery.embedding
        if self.positional and _single(items):
            return DistanceScan(self.plan, gallery, self.of, by_sigma=False)
        if self.positional:
            return Scan(self.plan, gallery)
        return MatchScan(self.plan, gallery, self.scale_and_shift)

    def ann(self, dim: int) -> Ann:
        """As for `csd`, whose order it nearly has."""
        return DistanceLift.of(dim)

    def of(self, closeness: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        """The score of two points whose `mean` score is this: log sigmoid(b − a ‖x−y‖)."""
        return logsigmoid(self.shift - self.scale * (-closeness).clamp_min(0).sqrt())


class AnalyticPlan(Plan):
    """Six float64 products per block."""

    def __init__(self, score: MatchProbability, queries: Gaussian, gallery: Gaussian) -> None:
        super().__init__(queries, gallery)
        self.score, self.left, self.right = score, queries, gallery
        self.work = PRODUCTS * queries.dim
        self.bytes_per_pair, self.bytes_per_item = 8 * 40, 8 * 16 * queries.dim
        size = gallery.mean.numel() * gallery.mean.element_size()
        self.keeps_variances = size <= CACHED_VARIANCE and 512 * len(queries) >= len(gallery)
        self.bytes_per_candidate = 8 * 40 + (0 if self.keeps_variances else 24 * queries.dim)

    def block(self, rows: Rows, columns: slice) -> Float[Tensor, "q g"]:
        """Moments in strips of items whose temporaries the allocator can keep, then one pass."""
        start, stop, _ = columns.indices(len(self.right))
        step = COLUMNS * max(1, CHUNK_BYTES // (32 * self.left.dim * COLUMNS))
        left = self._factors(self.left[rows])
        strips = (self.right[i : min(stop, i + step)] for i in range(start, stop, step))
        parts = [self._moments(left, strip) for strip in strips]

        def gather(flat: Int[Tensor, " n"]) -> analytic.Side:
            query, item = flat // (stop - start), flat % (stop - start)
            (m1, v1), (m2, v2) = _float64(self.left[rows][query]), _float64(self.right[columns][item])
            return m1 - m2, v1 + v2

        return analytic.score_pairs(analytic.Moments.cat(parts), gather, *self.score.scale_and_shift)

    def _moments(self, left: analytic.Factors, items: Gaussian) -> analytic.Moments:
        whole = Gaussian(whole_columns(items.mean), whole_columns(items.log_sigma))
        return left.moments(self._factors(whole)).columns(len(items))

    def _factors(self, items: Gaussian) -> analytic.Factors:
        return analytic.Factors.of(_float64(items), self._centre)

    def candidates(self, rows: Int[Tensor, " q"], ids: Int[Tensor, "q m"]) -> Float[Tensor, "q m"]:
        """Their moments by a compiled loop; the same numbers as `block` to float64's rounding."""
        if not uses_compiled(self.left.device):
            return self._gathered(rows, ids)
        left, (means, variances, positions) = self.left[rows], self._items(ids)

        def gather(flat: Int[Tensor, " n"]) -> analytic.Side:
            query, item = flat // ids.shape[1], positions.reshape(-1)[flat]
            delta = left.mean[query].double() - means[item].double()
            return delta, analytic.variances(left)[query].double() + variances[item].double()

        sums = compiled.pair_moments(
            (_rows(left.mean), _rows(analytic.variances(left))),
            (_rows(means), _rows(variances)),
            positions.numpy(),
            torch.get_num_threads(),
        )
        return analytic.score_pairs(analytic.Moments(*torch.from_numpy(sums)), gather, *self.score.scale_and_shift)

    def _gathered(self, rows: Int[Tensor, " q"], ids: Int[Tensor, "q m"]) -> Float[Tensor, "q m"]:
        """The formula for [q, 1, D] and the gathered [q, m, D]."""
        left = tuple(side[:, None] for side in _float64(self.left[rows]))
        mean, variance = (side.reshape(*ids.shape, -1) for side in _float64(self.right[ids.reshape(-1)]))
        return analytic.log_match_pairs((left[0], left[1]), (mean, variance), *self.score.scale_and_shift)

    def _items(self, ids: Int[Tensor, "q m"]) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"], Int[Tensor, "q m"]]:
        """(means, variances, where each candidate lies in them)."""
        if self.keeps_variances:
            return self.right.mean, self._all_variances, ids
        part = self.right[ids.reshape(-1)]
        return part.mean, analytic.variances(part), torch.arange(ids.numel()).reshape(ids.shape)

    @cached_property
    def _centre(self) -> Float[Tensor, " d"]:
        return self.right.mean.mean(0).double()

    @cached_property
    def _all_variances(self) -> Float[Tensor, "g d"]:
        return analytic.variances(self.right)


PRODUCTS = 6
"""Matrix products of the analytic rule (`analytic.Factors.moments`)."""
CACHED_VARIANCE = 256 << 20
"""Largest array of item variances that a `topk` keeps, in bytes; beyond it they are made anew."""


def _single(items: Embedding) -> bool:
    return isinstance(items, Points) and items.x.shape[1] == 1


def _float64(items: Gaussian) -> analytic.Side:
    """Variances in the embeddings' own precision, then widened: the same numbers on every path."""
    return items.mean.double(), analytic.variances(items).double()


def _rows(x: Float[Tensor, "n d"]) -> Array:
    return x.contiguous().numpy()
