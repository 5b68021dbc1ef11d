"""Kullback–Leibler divergence either way and its symmetric mean: inner products in lifted space."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.scores.base import LiftedScore, registry
from pcme.scores.plans import Lifted, Normal, Side


@registry.register("kl")
@dataclass(frozen=True)
class KullbackLeibler(LiftedScore):
    """−KL(query ‖ item) = −½ Σ [(σ₁² + (μ₁−μ₂)²)/σ₂² − 1 + log σ₂²/σ₁²].

    Paper: Eq. (B.1). Differs: has the −1 that the paper drops, so KL(p‖p) = 0 (ERRATA 4).
    """

    divides_by_sigma: ClassVar[bool] = True

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """−KL(query ‖ item)."""
        return -divergence(queries, gallery)

    def lift(self, items: Normal, side: Side) -> Lifted:
        """2D + 1 numbers."""
        return _lift_from(items) if side == "query" else _lift_to(items)


@registry.register("reverse_kl")
@dataclass(frozen=True)
class ReverseKullbackLeibler(LiftedScore):
    """−KL(item ‖ query): the other direction of `kl`."""

    divides_by_sigma: ClassVar[bool] = True

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """−KL(item ‖ query)."""
        return -divergence(gallery, queries)

    def lift(self, items: Normal, side: Side) -> Lifted:
        """2D + 1 numbers."""
        return _lift_to(items) if side == "query" else _lift_from(items)


@registry.register("jeffreys", aliases=("js",))
@dataclass(frozen=True)
class Jeffreys(LiftedScore):
    """−½ [KL(p‖q) + KL(q‖p)]: the symmetrised KL, half of Jeffreys' divergence.

    Paper: Eq. (B.2), there called Jensen–Shannon, which it is not (ERRATA 5).
    """

    symmetric: ClassVar[bool] = True
    divides_by_sigma: ClassVar[bool] = True

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """−½ [KL(p‖q) + KL(q‖p)]."""
        return -(divergence(queries, gallery) + divergence(gallery, queries)) / 2

    def lift(self, items: Normal, side: Side) -> Lifted:
        """Both directions stacked, 4D + 1 numbers."""
        here, there = _lift_from(items), _lift_to(items)
        first, second = (here, there) if side == "query" else (there, here)
        half = 0.5 if side == "query" else 1.0
        vectors = torch.cat((first.vectors, second.vectors), -1) * half
        return Lifted(vectors, (here.offset + there.offset) / 2)


def divergence(p: Normal, q: Normal) -> Float[Tensor, "*n"]:
    """KL(p ‖ q) ≥ 0; expm1 keeps the digits when the variances are close."""
    log_ratio = 2 * (p.log_sigma - q.log_sigma)
    shift = (p.mean - q.mean).square() / q.variance
    return (torch.expm1(log_ratio) - log_ratio + shift).sum(-1) / 2


def _lift_from(p: Normal) -> Lifted:
    offset = p.log_sigma.sum(-1) + p.mean.shape[-1] / 2
    return Lifted(torch.cat((p.mean.square() + p.variance, p.mean), -1), offset)


def _lift_to(q: Normal) -> Lifted:
    precision = (-2 * q.log_sigma).exp()
    scaled = q.mean * precision
    offset = -(q.mean * scaled / 2 + q.log_sigma).sum(-1)
    return Lifted(torch.cat((-precision / 2, scaled), -1), offset)
