"""A score in one file: the log of a logistic function of the means' L1 distance."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.scores.base import Score, registry
from pcme.scores.plans import Normal


@registry.register("flock-manhattan")
@dataclass(frozen=True)
class Manhattan(Score):
    """log sigmoid(1 − scale · Σ |μ₁−μ₂|): match probability from the L1 distance."""

    is_log_probability: ClassVar[bool] = True

    scale: float = 2.0

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        return logsigmoid(1 - self.scale * (queries.mean - gallery.mean).abs().sum(-1))
