"""Squared distances: of the means, 2-Wasserstein, expected, and a match probability of the last."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.embedding import Embedding
from pcme.scores.base import LiftedScore, Score, registry, require_logit
from pcme.scores.distance_scan import DistanceScan
from pcme.scores.gallery import Gallery
from pcme.scores.lifts import Ann, DistanceLift
from pcme.scores.plans import (
    Lifted,
    Normal,
    Plan,
    Side,
    SquashedPlan,
    expected_distance,
    lift_expected,
    lift_l2,
    lift_mean,
    mean_distance,
    single_points,
)
from pcme.scores.scan import Scan


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
        return mean_distance(queries, gallery)

    def lift(self, items: Normal, side: Side) -> Lifted:
        """D + 1 numbers."""
        return lift_mean(items, side)

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """Single points are means."""
        self.require_taken(queries, gallery)
        return super().plan(single_points(queries), single_points(gallery))

    def scan(self, gallery: Gallery, *, exact: bool = True) -> Scan[Any, Any]:
        """Keys are the score but for rounding."""
        return DistanceScan(self.plan, gallery, by_sigma=False)

    def ann(self, dim: int) -> Ann:
        """The means."""
        return DistanceLift.of(dim, by_sigma=False)


@registry.register("w2")
@dataclass(frozen=True)
class Wasserstein(LiftedScore):
    """−W₂² = −‖μ₁−μ₂‖² − ‖σ₁−σ₂‖².

    Paper: Eq. (B.6). Relation: `mean` when σ₁ = σ₂.
    """

    symmetric: ClassVar[bool] = True

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """−‖μ₁−μ₂‖² − ‖σ₁−σ₂‖²."""
        return mean_distance(queries, gallery) - (queries.sigma - gallery.sigma).square().sum(-1)

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
        return expected_distance(queries, gallery)

    def lift(self, items: Normal, side: Side) -> Lifted:
        """D + 1 numbers."""
        return lift_expected(items, side)

    def scan(self, gallery: Gallery, *, exact: bool = True) -> Scan[Any, Any]:
        """Keys are the score but for rounding."""
        return DistanceScan(self.plan, gallery)

    def ann(self, dim: int) -> Ann:
        """[μ; √Σσ²]."""
        return DistanceLift.of(dim)


@registry.register("csd_prob")
@dataclass(frozen=True)
class ExpectedMatch(Score):
    """log sigmoid(b − a E‖z₁−z₂‖²): the log match probability of PCME++.

    Chun 2024 (PCME++), Eq. (1)–(2). Relation: the order of `csd`; `match_prob` has the mean of the
    sigmoid where this has the sigmoid of the mean.
    """

    scale: float = 5.0
    shift: float = 5.0
    symmetric: ClassVar[bool] = True
    orders_like: ClassVar[str | None] = "csd"
    is_log_probability: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        require_logit("csd_prob", self.scale, self.shift)

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """log sigmoid(b − a (‖μ₁−μ₂‖² + Σ(σ₁²+σ₂²)))."""
        return self.of(expected_distance(queries, gallery))

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """One matrix product per block, as for `csd`."""
        return SquashedPlan(self.of, expected_distance, lift_expected, *self.gaussians(queries, gallery))

    def scan(self, gallery: Gallery, *, exact: bool = True) -> Scan[Any, Any]:
        """The keys of `csd`."""
        return DistanceScan(self.plan, gallery, self.of)

    def ann(self, dim: int) -> Ann:
        """As for `csd`."""
        return DistanceLift.of(dim)

    def of(self, closeness: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        """The score of pairs whose `csd` is this."""
        return logsigmoid(self.shift + self.scale * closeness)
