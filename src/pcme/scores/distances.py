"""Squared distances: of the means, 2-Wasserstein, and the expected one. All lift to L2."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.embedding import Embedding, Gaussian, Points
from pcme.scores.base import LiftedScore, registry
from pcme.scores.plans import Lifted, Normal, Plan, Side, lift_l2


@registry.register("mean")
@dataclass(frozen=True)
class MeanDistance(LiftedScore):
    """−‖μ₁−μ₂‖²: the means alone, as a deterministic model would. Also takes Points with K = 1.

    Paper: Table 1, "Mean only".
    """

    symmetric: ClassVar[bool] = True

    @property
    def max_points(self) -> int | None:
        """A single point is a mean."""
        return 1

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """−‖μ₁−μ₂‖²."""
        return -(queries.mean - gallery.mean).square().sum(-1)

    def lift(self, items: Normal, side: Side) -> Lifted:
        """D + 1 numbers."""
        return lift_l2(items.mean, torch.zeros_like(items.mean[:, 0]), side)

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """Single points are means."""
        return super().plan(_single_point(queries), _single_point(gallery))


@registry.register("w2")
@dataclass(frozen=True)
class Wasserstein(LiftedScore):
    """−W₂² = −‖μ₁−μ₂‖² − ‖σ₁−σ₂‖².

    Paper: Eq. (B.6). Relation: `mean` when σ₁ = σ₂.
    """

    symmetric: ClassVar[bool] = True

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """−‖μ₁−μ₂‖² − ‖σ₁−σ₂‖²."""
        spread = (queries.sigma - gallery.sigma).square().sum(-1)
        return -(queries.mean - gallery.mean).square().sum(-1) - spread

    def lift(self, items: Normal, side: Side) -> Lifted:
        """L2 between [μ; σ]: 2D + 1 numbers."""
        both = torch.cat((items.mean, items.sigma), -1)
        return lift_l2(both, torch.zeros_like(items.mean[:, 0]), side)


@registry.register("csd")
@dataclass(frozen=True)
class ExpectedDistance(LiftedScore):
    """−E‖z₁−z₂‖² = −‖μ₁−μ₂‖² − Σ(σ₁²+σ₂²), the closed-form sampled distance of PCME++.

    Relation: the mean of the squared distance whose law `match_prob` integrates.
    """

    symmetric: ClassVar[bool] = True

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """−‖μ₁−μ₂‖² − Σ(σ₁²+σ₂²)."""
        spread = queries.variance.sum(-1) + gallery.variance.sum(-1)
        return -(queries.mean - gallery.mean).square().sum(-1) - spread

    def lift(self, items: Normal, side: Side) -> Lifted:
        """D + 1 numbers."""
        return lift_l2(items.mean, items.variance.sum(-1), side)


def _single_point(items: Embedding) -> Embedding:
    if isinstance(items, Points) and items.x.shape[1] == 1:
        return Gaussian(items.x[:, 0], torch.zeros_like(items.x[:, 0, :1]))
    return items
