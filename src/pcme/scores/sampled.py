"""Scores of sampled or given points: the paper's average distance, and PVSE's nearest pair."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.embedding import Embedding
from pcme.errors import ConfigError
from pcme.kernels import sampled
from pcme.scores.base import Score, registry
from pcme.scores.distances import MeanDistance
from pcme.scores.plans import Normal, Plan, SampledPlan


@dataclass(frozen=True)
class SampledScore(Score, ABC):
    """A reduction over the distances of J × J samples, or of an item's own points."""

    samples: int = 7
    seed: int = 0
    symmetric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the count."""
        if self.samples < 1:
            raise ConfigError(f"{self.name}: samples must be ≥ 1, got {self.samples}.")

    @property
    def max_points(self) -> int | None:
        """Any number."""
        return None

    @property
    def positional(self) -> bool:
        """Always, for Gaussians."""
        return True

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """Sampled scores depend on an item's position, so there is no formula for a pair alone."""
        raise NotImplementedError

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """One product over the stacked points."""
        return SampledPlan(self.reduce, queries, gallery, samples=self.samples, seed=self.seed)

    @abstractmethod
    def reduce(self, x: sampled.Queries, y: sampled.Items) -> sampled.Pairs:
        """The scores of all pairs."""


@registry.register("average_l2")
@dataclass(frozen=True)
class AverageDistance(SampledScore):
    """−mean over J² of ‖z₁ − z₂‖, both sides sampled independently. Takes Points as samples.

    Paper: Table 1, "Average L2". The released code has no such option (ERRATA 11).
    """

    def reduce(self, x: sampled.Queries, y: sampled.Items) -> sampled.Pairs:
        """The mean distance, negated."""
        return -sampled.mean_distance(x, y)


@registry.register("nearest")
@dataclass(frozen=True)
class NearestPoints(SampledScore):
    """−min over K² of ‖z₁ − z₂‖²: the nearest of two items' points, or of J samples.

    For points of length one it is 2 max cos − 2, the score of PVSE (Song & Soleymani 2019).
    Relation: `mean` when K = 1; `average_l2` has the mean where this has the least.
    """

    def for_single_points(self) -> Score:
        """The only pair is the nearest."""
        return MeanDistance()

    def reduce(self, x: sampled.Queries, y: sampled.Items) -> sampled.Pairs:
        """Points move to the middle of the items first, where products cancel least."""
        centre = y.mean((0, 1))
        left, right = ((side - centre).transpose(0, 1).flatten(0, 1) for side in (x, y))
        norms = left.square().sum(1, keepdim=True) + right.square().sum(1)
        squares = torch.addmm(norms, left, right.T, alpha=-2).clamp_min_(0)
        return -squares.view(x.shape[1], len(x), y.shape[1], len(y)).amin((0, 2))
