"""VSE0 and VSE++: one unit vector an item, and a margin between true and false cosines.

    loss = Σ_i Σ_n [margin + cos(i, n) − cos(i, p)]₊ / B, for images i and for captions i

over all false n (VSE0) or the worst one alone (VSE++); an i with several true p has their mean.

Faghri et al. 2018 (VSE++, BMVC), sum and max of hinges; the baselines of the paper's §4.2 and §4.3.
"""

from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pcme.embedding import Embedding
from pcme.errors import ConfigError
from pcme.methods.base import Method, Objective, Terms, registry, require_known
from pcme.methods.triplets import Negatives, Positives, Triplets, best_cosine
from pcme.nn.heads import HeadOptions
from pcme.scores import create
from pcme.scores.base import Score

__all__ = ["VSE0", "HardestNegatives", "Ranking"]


@dataclass(frozen=True)
class _RankingMethod(Method):
    margin: float = 0.2
    negatives: Negatives = "all"
    positives: Positives = "matches"
    warm_start: float = 0.0
    mean_attention: bool = True
    attention_hidden: int | None = None

    def __post_init__(self) -> None:
        require_known("negatives", self.negatives, get_args(Negatives))
        require_known("positives", self.positives, get_args(Positives))
        if self.margin <= 0 or not 0 <= self.warm_start < 1:
            raise ConfigError(
                "margin must be above 0 and warm_start from 0 to below 1, a share of the run - got "
                f"{self.margin}, {self.warm_start}"
            )

    def heads(self, dim: int) -> HeadOptions:
        """One unit vector an item, by the paper's mean head."""
        return HeadOptions(
            dim,
            covariance="none",
            mean_attention=self.mean_attention,
            attention_hidden=self.attention_hidden,
        )

    def objective(self) -> "Ranking":
        """The loss."""
        return Ranking(self)


@registry.register("vse0")
@dataclass(frozen=True)
class VSE0(_RankingMethod):
    """VSE0: cosines, and a margin of 0.2 over all negatives of the batch.

    Differs: the authors sum over the batch, here it is the mean over items (weights and clipping
    then do not depend on its size); all true matches count, and `positives="diagonal"` is theirs.
    Their settings (Adam 2e-4, a tenth from epoch 15 of 30, 128 pairs) are a recipe's business.
    """


@registry.register("vse++")
@dataclass(frozen=True)
class HardestNegatives(_RankingMethod):
    """VSE++: cosines, and a margin of 0.2 over the hardest negative of the batch.

    Differs: as `vse0`, and by a warm start. The authors have none and train for 30 epochs from a
    learning rate of 2e-4; at the rates of short runs it is needed (`Triplets`).
    """

    negatives: Negatives = "hardest"
    warm_start: float = 0.5


class Ranking(Objective):
    """The loss of this module's docstring; nothing in it is learned."""

    def __init__(self, method: _RankingMethod) -> None:
        super().__init__()
        self.triplets = Triplets(
            margin=method.margin,
            negatives=method.negatives,
            positives=method.positives,
            warm_start=method.warm_start,
        )

    def forward(
        self,
        images: Embedding,
        captions: Embedding,
        matches: Bool[Tensor, "b b"],
        generator: torch.Generator,
    ) -> Terms:
        """The term rank."""
        loss: Float[Tensor, ""] = self.triplets(best_cosine(images, captions), matches)
        return Terms({"rank": loss}, {})

    def score(self) -> Score:
        """−‖x − y‖² = 2 cos − 2 for unit vectors: the order of the cosines."""
        return create("mean")

    def expect(self, steps: int) -> None:
        """The warm start is a share of it."""
        self.triplets.expect(steps)

    def report(self) -> dict[str, float]:
        """Whether the warm start is over."""
        return self.triplets.report()
