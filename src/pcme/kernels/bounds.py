"""Bounds on the analytic match probability of a query with any item of a gallery, which prove a top-k.

An item whose expected squared distance is at least so large has at most this match probability.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.embedding import Gaussian
from pcme.kernels.analytic import STEEP, WIDE, variances
from pcme.kernels.quadrature import Scalar, hermite

PerQuery = Float[Tensor, " n"]
BOUND_STRIPS = 16
ROUNDING = 1.001
"""Covers the single-precision sums behind the limits."""


def extent(items: Gaussian, centre: Float[Tensor, " d"]) -> Float64[Tensor, "5 n"]:
    """Σ σ², Σ σ⁴, max σ², ‖σ² − mean σ²‖ and ‖μ − centre‖₄ per item."""
    variance = variances(items)
    uneven = (variance - variance.mean(-1, keepdim=True)).norm(dim=1)
    norm4 = (items.mean - centre).square().square().sum(-1).sqrt().sqrt()
    sums = (variance.sum(-1), variance.square().sum(-1), variance.amax(-1))
    return torch.stack((*sums, uneven, norm4)).double()


class Limits(NamedTuple):
    """Per query, bounds on the sums of `analytic.Moments` that hold for every item."""

    least_spread: PerQuery
    most_spread: PerQuery
    most_spread2: PerQuery
    most_uneven: PerQuery
    """Σ Δ² s exceeds mean(s) Σ Δ² by no more."""
    widest: PerQuery
    """No s_d is larger."""
    dim: int

    @staticmethod
    def of(
        queries: Float64[Tensor, "5 q"], least: Float64[Tensor, "5"], most: Float64[Tensor, "5"], dim: int
    ) -> "Limits":
        """From the queries' `extent` and the least and largest of the items'.

        With s̄ the mean of s over the dimensions, Σ Δ² s = s̄ Σ Δ² + Σ Δ² (s − s̄), whose last sum
        is ≤ ‖Δ‖₄² ‖s − s̄‖ (Cauchy–Schwarz); the norms of both sides add (Minkowski).
        """
        spread, spread2, widest, uneven, norm4 = queries * ROUNDING
        least, most = least / ROUNDING, most * ROUNDING
        return Limits(
            least_spread=queries[0] / ROUNDING + least[0],
            most_spread=spread + most[0],
            most_spread2=(spread2.sqrt() + most[1].sqrt()).square(),
            most_uneven=(norm4 + most[4]).square() * (uneven + most[3]),
            widest=widest + most[2],
            dim=dim,
        )


def upper_log_match(mean: PerQuery, limits: Limits, scale: Scalar, shift: Scalar) -> PerQuery:
    """No pair with E Q ≥ `mean` has a larger `log_match`; +∞ where such a pair could be wide.

    A node of the narrow rule lies at √E Q + u z + …, u = sd(√Q). The range of u is cut into strips; within one, each
    node is put as near as the strip allows (its upper end where z < 0, its lower end where z > 0), less the most that
    the higher terms can take away. Every part falls as E Q grows, so the bound at `mean` holds beyond it.
    """
    root = mean.clamp_min(0).sqrt()
    cv, skew, product = _shape_limits(mean, limits)
    edges = torch.linspace(0, 1, BOUND_STRIPS + 1, dtype=mean.dtype)[:, None] * cv / 2  # u / root
    steep = scale * root * edges
    bounds = torch.full_like(edges[1:], -torch.inf)
    for (_, nodes), (low, high) in zip(STEEP, pairwise((-1.0, *(s for s, _ in STEEP))), strict=True):
        inside = (steep[1:] > low) & (steep[:-1] <= high)
        if inside.any():
            z, weight = torch.tensor(hermite(nodes), dtype=mean.dtype).T[:, :, None]  # [node, 1]
            first = z.abs() * product * (skew * 0.0212 + cv / 24)
            third = z.abs() ** 3 * (product * (skew * 0.0025 + cv / 24) + cv.pow(3) / 16)
            lost = product / 12 + z * z * cv.square() / 8 + first + third
            along = torch.where(z[:, :, None] > 0, edges[:-1], edges[1:])  # [node, strip, n]
            factor = 1 + z[:, :, None] * along - lost[:, None]
            terms = weight[:, :, None] + logsigmoid(shift - scale * root * factor.clamp_min(0))
            bound = torch.logsumexp(terms, 0)
            bounds = torch.where(inside, torch.maximum(bounds, bound), bounds)
    safe = (mean > 0) & (cv.square() <= WIDE)
    return torch.where(safe, bounds.amax(0), torch.inf)


def _shape_limits(mean: PerQuery, limits: Limits) -> tuple[PerQuery, PerQuery, PerQuery]:
    """The most that cv, skew and cv · skew of Q can be, falling as E Q grows.

    Var Q ≤ 2 Σs² + 4 (s̄ (E Q − Σs) + uneven). skew = 8 θ₃ / Var^(3/2) ≤ √8, and ≤ 6 max(s) / √Var
    with Var ≥ 2 (Σs)²/D. cv · skew = 8 θ₃ / (Var · E Q) ≤ max(4 Σs²/Σs, 6 ΣΔ²s/ΣΔ²) / E Q.
    """
    average = limits.most_spread / limits.dim
    fixed = 2 * limits.most_spread2 + 4 * (limits.most_uneven - average * limits.least_spread)
    variance = fixed.clamp_min(0) + 4 * average * mean
    least = 2 * limits.least_spread.square() / limits.dim
    skew = (6 * limits.widest / least.sqrt()).clamp_max(math.sqrt(8))
    least_shift = (mean - limits.most_spread).clamp_min(torch.finfo(mean.dtype).tiny)
    along = torch.minimum(limits.widest, average + limits.most_uneven / least_shift)
    product = torch.maximum(4 * limits.most_spread2 / limits.least_spread, 6 * along) / mean
    return variance.sqrt() / mean, skew, product
