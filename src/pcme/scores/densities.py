"""Scores of overlapping densities: elk, bhattacharyya, their family ppk, and `overlap`, our own match probability.

They are no matrix products: `density_scan` computes them by a compiled kernel that holds no Q × G × D array.
"""

import math
from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.core.checks import require
from pcme.embedding import Embedding
from pcme.scores.base import Score, registry, require_logit
from pcme.scores.density_scan import Density, DensityPlan, DensityScan, SeparableScan
from pcme.scores.gallery import Gallery
from pcme.scores.lifts import Ann, DensityAnn
from pcme.scores.plans import Normal, Plan
from pcme.scores.scan import Scan


class DensityScore(Density, Score, ABC):
    """A score made of M, L and the log volumes."""

    symmetric: ClassVar[bool] = True
    divides_by_sigma: ClassVar[bool] = True

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """The formula, dimension by dimension."""
        s = queries.variance + gallery.variance
        m = ((queries.mean - gallery.mean).square() / s).sum(-1)
        volume = queries.log_sigma.sum(-1) + gallery.log_sigma.sum(-1)
        return self.combine(m, s.log().sum(-1), volume, queries.mean.shape[-1])

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """The compiled kernel."""
        return DensityPlan(self, *self.gaussians(queries, gallery))

    def scan(self, gallery: Gallery, *, exact: bool = True) -> Scan[Any, Any]:
        """Keys by the kernel itself, or without proof by a separable approximation."""
        return DensityScan(self, gallery) if exact else SeparableScan(self, gallery)

    def ann(self, dim: int) -> Ann | None:
        """A lift that is fitted on items and queries."""
        return DensityAnn(self.weights(dim))


@registry.register("elk")
@dataclass(frozen=True)
class ExpectedLikelihood(DensityScore):
    """log ∫ p q = −½ Σ [(μ₁−μ₂)²/(σ₁²+σ₂²) + log(σ₁²+σ₂²) + log 2π].

    Paper: Eq. (B.4). Differs: keeps log 2π, so it is the logarithm of the kernel itself (ERRATA 6).
    """

    def weights(self, dim: int) -> tuple[float, float, float]:
        """½ M + ½ L."""
        return 0.5, 0.5, 0.0

    def finish(self, x: Float[Tensor, "*n"], dim: int) -> Float[Tensor, "*n"]:
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

    def finish(self, x: Float[Tensor, "*n"], dim: int) -> Float[Tensor, "*n"]:
        """+½ D log 2."""
        return x + dim / 2 * math.log(2)


@registry.register("ppk")
@dataclass(frozen=True)
class ProbabilityProduct(DensityScore):
    """log ∫ p^ρ q^ρ = Σ [(1−ρ)(log σ₁ + log σ₂) − ½ρ (μ₁−μ₂)²/(σ₁²+σ₂²) − ½ log(σ₁²+σ₂²)] + D c(ρ).

    Paper: Eq. (B.3). Relation: `elk` for ρ = 1, `bhattacharyya` for ρ = ½.
    """

    rho: float = 0.75

    def __post_init__(self) -> None:
        """The integral exists for every ρ > 0."""
        require("rho", 0 < self.rho < math.inf, "finite and above 0", self.rho)

    def weights(self, dim: int) -> tuple[float, float, float]:
        """½ρ M + ½ L − (1 − ρ)(Σ log σ₁ + Σ log σ₂)."""
        return self.rho / 2, 0.5, 1 - self.rho

    def finish(self, x: Float[Tensor, "*n"], dim: int) -> Float[Tensor, "*n"]:
        """c(ρ) = (½ − ρ) log 2π − ½ log ρ."""
        return x + dim * ((0.5 - self.rho) * math.log(2 * math.pi) - 0.5 * math.log(self.rho))

    def scan(self, gallery: Gallery, *, exact: bool = True) -> Scan[Any, Any]:
        """For ρ > 1 wide items lose by their volume, which the density scan's bound does not allow for."""
        return super().scan(gallery, exact=exact) if self.rho <= 1 else Scan(self.plan, gallery)

    def ann(self, dim: int) -> Ann | None:
        """As for `elk`, where the weights allow it."""
        return super().ann(dim) if self.rho <= 1 else None


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
        """A negative scale would reverse the ranking."""
        require_logit("overlap", self.scale, self.shift)

    def weights(self, dim: int) -> tuple[float, float, float]:
        """a/2D (M + L)."""
        return self.scale / (2 * dim), self.scale / (2 * dim), 0.0

    def finish(self, x: Float[Tensor, "*n"], dim: int) -> Float[Tensor, "*n"]:
        """log sigmoid(b + x)."""
        return logsigmoid(self.shift + x)
