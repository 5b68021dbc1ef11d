"""The paper's other sampling-based score: the average distance of J² samples."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from pcme.embedding import Embedding
from pcme.errors import ConfigError
from pcme.kernels import sampled
from pcme.scores.base import Score, registry
from pcme.scores.plans import Normal, Plan, SampledPlan


@registry.register("average_l2")
@dataclass(frozen=True)
class AverageDistance(Score):
    """−mean over J² of ‖z₁ − z₂‖, both sides sampled independently. Takes Points as samples.

    Paper: Table 1, "Average L2". The released code has no such option (ERRATA 11).
    """

    samples: int = 7
    seed: int = 0
    symmetric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the count."""
        if self.samples < 1:
            raise ConfigError(f"average_l2 needs samples ≥ 1, got {self.samples}.")

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
        """One product over the stacked samples."""
        return SampledPlan(
            lambda x, y: -sampled.mean_distance(x, y),
            queries,
            gallery,
            samples=self.samples,
            seed=self.seed,
        )
