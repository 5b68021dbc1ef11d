"""Scores of overlapping densities: elk, bhattacharyya, and `overlap`, our own match probability.

All are −α M − β L + γ (Σ log σ₁ + Σ log σ₂), finished by a monotone function, with M and L the two
sums of `kernels.overlap`: no matrix product, but a compiled kernel that holds no Q × G × D array.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError
from pcme.kernels import overlap
from pcme.scores.base import Score, registry, require_gaussian
from pcme.scores.plans import Lifted, Normal, Plan, Rows, Shortlist

STEPS = 6
"""Multiply-adds per dimension of `compiled.kernel_sums`: 24 for every four dimensions."""


class DensityScore(Score, ABC):
    """A score made of M, L and the log volumes."""

    symmetric: ClassVar[bool] = True
    divides_by_sigma: ClassVar[bool] = True

    @abstractmethod
    def weights(self, dim: int) -> tuple[float, float, float]:
        """(α, β, γ), all ≥ 0."""

    @abstractmethod
    def finish(self, x: Tensor, dim: int) -> Tensor:
        """The score from −α M − β L + γ (…): monotone."""

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """The formula, dimension by dimension."""
        dim = queries.mean.shape[-1]
        s = queries.variance + gallery.variance
        m = ((queries.mean - gallery.mean).square() / s).sum(-1)
        own = queries.log_sigma.sum(-1) + gallery.log_sigma.sum(-1)
        return self.combine(m, s.log().sum(-1), own, dim)

    def combine(self, m: Tensor, log_sum: Tensor, own: Tensor, dim: int) -> Tensor:
        """The score from its three sums."""
        alpha, beta, gamma = self.weights(dim)
        return self.finish(-alpha * m - beta * log_sum + gamma * own, dim)

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """The compiled kernel."""
        return DensityPlan(self, require_gaussian(self, queries), require_gaussian(self, gallery))


@registry.register("elk")
@dataclass(frozen=True)
class ExpectedLikelihood(DensityScore):
    """log ∫ p q = −½ Σ [(μ₁−μ₂)²/(σ₁²+σ₂²) + log(σ₁²+σ₂²) + log 2π].

    Paper: Eq. (B.4). Differs: keeps log 2π, so it is the logarithm of the kernel itself (ERRATA 6).
    """

    def weights(self, dim: int) -> tuple[float, float, float]:
        """½ M + ½ L."""
        return 0.5, 0.5, 0.0

    def finish(self, x: Tensor, dim: int) -> Tensor:
        """−½ D log 2π."""
        return x - dim / 2 * math.log(2 * math.pi)


@registry.register("bhattacharyya")
@dataclass(frozen=True)
class Bhattacharyya(DensityScore):
    """log ∫ √(p q) = −¼ Σ (μ₁−μ₂)²/(σ₁²+σ₂²) − ½ Σ log[(σ₁/σ₂ + σ₂/σ₁)/2].

    Paper: Eq. (B.5). Differs: the paper drops −½ log 2, so it is not 0 at p = q (ERRATA 7).
    """

    def weights(self, dim: int) -> tuple[float, float, float]:
        """¼ M + ½ L − ½ (Σ log σ₁ + Σ log σ₂)."""
        return 0.25, 0.5, 0.5

    def finish(self, x: Tensor, dim: int) -> Tensor:
        """+½ D log 2."""
        return x + dim / 2 * math.log(2)


@registry.register("overlap")
@dataclass(frozen=True)
class Overlap(DensityScore):
    """log sigmoid(b − a/2D Σ [(μ₁−μ₂)²/(σ₁²+σ₂²) + log(σ₁²+σ₂²)]): log match probability.

    Not in the paper: its expected likelihood kernel made a probability. A difference counts in
    units of the two spreads, so an item may be wide along what it leaves open. Relation: `elk`.
    """

    scale: float = 10.0
    shift: float = -15.0
    orders_like: ClassVar[str | None] = "elk"
    is_log_probability: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """A negative scale would turn the ranking round."""
        if not 0 < self.scale < math.inf or not math.isfinite(self.shift):
            raise ConfigError(
                "overlap needs a finite scale > 0 and a finite shift, "
                f"got {self.scale} and {self.shift}."
            )

    def weights(self, dim: int) -> tuple[float, float, float]:
        """a/2D (M + L)."""
        return self.scale / (2 * dim), self.scale / (2 * dim), 0.0

    def finish(self, x: Tensor, dim: int) -> Tensor:
        """log sigmoid(b + x)."""
        return logsigmoid(self.shift + x)


class DensityPlan(Plan):
    """Blocks by `elk.terms`; a separable shortlist for `topk(exact=False)`."""

    def __init__(self, score: DensityScore, queries: Gaussian, gallery: Gaussian) -> None:
        super().__init__(queries, gallery)
        self.score, self.left, self.right = score, queries, gallery
        self.scaling = overlap.Scaling.of(queries, gallery)
        self.own = [items.log_volume() for items in (queries, gallery)]
        self.work = STEPS * queries.dim
        self.bytes_per_pair, self.bytes_per_item = 40, 48 * queries.dim
        self.bytes_per_candidate = 64

    def block(self, rows: Rows, columns: slice) -> Tensor:
        """The fused kernel, finished in float64."""
        m, log_sum = overlap.terms(self.left[rows], self.right[columns], self.scaling)
        own = self.own[0][rows][:, None] + self.own[1][columns]
        return self.score.combine(m.double(), log_sum.double(), own, self.left.dim)

    def candidates(self, rows: Tensor, ids: Int[Tensor, "q m"]) -> Tensor:
        """Query by query through the same kernel, hence to the same bit."""
        return torch.cat([self._row(int(q), own_ids) for q, own_ids in zip(rows, ids, strict=True)])

    def shortlist(self, k: int) -> Shortlist:
        """1/z ≈ (e/z₀) e^(−z/z₀), log z ≈ log z₀ + 1 − e·e^(−z/z₀) about the mean z₀ of σ₁²+σ₂².

        Both are right to second order and separable, so the key is one product of 3D columns.
        """
        _, left_variance = self.scaling.apply(self.left)
        typical = left_variance.mean(0) + self._mean_item_variance()
        return Shortlist(
            self._query_features(typical),
            lambda columns: self._item_features(columns, typical),
            width=8 * k + 56,
            upper=lambda rows, keys: torch.full_like(keys, torch.inf),
            bounded=False,
        )

    def _row(self, query: int, ids: Tensor) -> Tensor:
        m, log_sum = overlap.terms(self.left[query], self.right[ids], self.scaling)
        own = self.own[0][query] + self.own[1][ids]
        return self.score.combine(m.double(), log_sum.double(), own, self.left.dim)

    def _mean_item_variance(self) -> Tensor:
        parts = [
            self.scaling.apply(self.right[i : i + 4096])[1].sum(0)
            for i in range(0, len(self.right), 4096)
        ]
        return torch.stack(parts).sum(0) / len(self.right)

    def _query_features(self, typical: Tensor) -> Tensor:
        mean, variance = self.scaling.apply(self.left)
        fade = (-variance / typical).exp()
        parts = (mean.square() * fade, mean * fade, fade)
        return torch.cat(parts, -1).to(torch.float32)

    def _item_features(self, columns: slice, typical: Tensor) -> Lifted:
        alpha, beta, gamma = self.score.weights(self.left.dim)
        mean, variance = self.scaling.apply(self.right[columns])
        fade = math.e * (-variance / typical).exp()
        slope = alpha / typical * fade
        parts = (-slope, 2 * slope * mean, beta * fade - slope * mean.square())
        own = gamma * self.own[1][columns]
        return Lifted(torch.cat(parts, -1).to(torch.float32), own.to(torch.float32))
