"""The distance of the two nearest of K × K points: how PVSE compares items."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.embedding import Embedding
from pcme.errors import ConfigError
from pcme.scores.base import Score, registry
from pcme.scores.plans import Normal, Plan, SampledPlan


@registry.register("nearest")
@dataclass(frozen=True)
class NearestPoints(Score):
    """−min over K² of ‖z₁ − z₂‖²: the nearest of two items' points, or of J samples.

    For points of length one it is 2 max cos − 2, the score of PVSE (Song & Soleymani 2019).
    Relation: `mean` when K = 1; `average_l2` has the mean where this has the least.
    """

    samples: int = 7
    seed: int = 0
    symmetric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the count."""
        if self.samples < 1:
            raise ConfigError(f"nearest needs samples ≥ 1, got {self.samples}.")

    @property
    def max_points(self) -> int | None:
        """Any number."""
        return None

    @property
    def positional(self) -> bool:
        """Always."""
        return True

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """Sampled scores depend on an item's position, so there is no formula for a pair alone."""
        raise NotImplementedError

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """One product over the stacked points."""
        return SampledPlan(_nearest, queries, gallery, samples=self.samples, seed=self.seed)


def _nearest(x: Float[Tensor, "q j d"], y: Float[Tensor, "g k d"]) -> Float[Tensor, "q g"]:
    """Points move to the middle of the items first, where products cancel least."""
    centre = y.mean((0, 1))
    left, right = ((side - centre).transpose(0, 1).flatten(0, 1) for side in (x, y))
    own = left.square().sum(1, keepdim=True) + right.square().sum(1)
    squares = torch.addmm(own, left, right.T, alpha=-2).clamp_min_(0)
    return -squares.view(x.shape[1], len(x), y.shape[1], len(y)).amin((0, 2))
