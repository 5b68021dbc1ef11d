"""InfoNCE: among the captions of a batch, which is the image's; and the other way round.

    loss = ½ (cross entropy of softmax over captions + that over images) of logits s · cos(i, j)

with a learned s, the inverse temperature.

Radford et al. 2021 (CLIP), §2.3 and Fig. 3. Not in the paper; asked for by users of its code.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pcme.embedding import Embedding
from pcme.errors import ConfigError
from pcme.methods.base import Method, Objective, Terms, registry, require_known
from pcme.nn.heads import HeadOptions
from pcme.scores import create
from pcme.scores.base import Score

__all__ = ["Contrast", "InfoNCE", "cross_entropy"]

Positives = Literal["diagonal", "matches"]


@registry.register("infonce")
@dataclass(frozen=True)
class InfoNCE(Method):
    """InfoNCE: symmetric cross entropy over the batch, with a learned temperature.

    CLIP's settings: the temperature starts at 0.07, is learned as a logarithm, and its inverse is
    kept at 100 or below. With `positives="matches"` an item's target is shared equally by all that
    is true of it; "diagonal" is CLIP's.
    """

    temperature: float = 0.07
    largest_scale: float = 100.0
    positives: Positives = "matches"
    mean_attention: bool = True
    attention_hidden: int | None = None

    def __post_init__(self) -> None:
        require_known("positives", self.positives, get_args(Positives))
        if self.largest_scale <= 0 or not 1 / self.largest_scale <= self.temperature:
            raise ConfigError(
                "largest_scale must be above 0 and at least the temperature's inverse - got "
                f"{self.temperature}, {self.largest_scale}"
            )

    def heads(self, dim: int) -> HeadOptions:
        """One unit vector an item, by the paper's mean head."""
        return HeadOptions(
            dim,
            covariance="none",
            mean_attention=self.mean_attention,
            attention_hidden=self.attention_hidden,
        )

    def objective(self) -> "Contrast":
        """The loss."""
        return Contrast(self)


class Contrast(Objective):
    """The loss of this module's docstring; log s is learned."""

    def __init__(self, method: InfoNCE) -> None:
        super().__init__()
        self.method = method
        self.log_scale = nn.Parameter(torch.tensor(-math.log(method.temperature)))

    def forward(
        self,
        images: Embedding,
        captions: Embedding,
        matches: Bool[Tensor, "b b"],
        generator: torch.Generator,
    ) -> Terms:
        """The term contrast."""
        with torch.no_grad():  # the weight itself is capped, so that it can come down again
            self.log_scale.clamp_(max=math.log(self.method.largest_scale))
        logits = self.log_scale.exp() * (images.points()[:, 0] @ captions.points()[:, 0].T)
        diagonal = self.method.positives == "diagonal"
        true = torch.eye(*matches.shape, device=matches.device) if diagonal else matches
        loss = (cross_entropy(logits, true) + cross_entropy(logits.T, true.T)) / 2
        return Terms({"contrast": loss}, {})

    def score(self) -> Score:
        """−‖x − y‖² = 2 cos − 2 for unit vectors: the order of the logits."""
        return create("mean")

    def report(self) -> dict[str, float]:
        """The inverse temperature."""
        return {"scale": min(self.method.largest_scale, self.log_scale.exp().item())}


def cross_entropy(
    logits: Float[Tensor, "b c"], true: Bool[Tensor, "b c"] | Float[Tensor, "b c"]
) -> Float[Tensor, ""]:
    """−Σ_j target_j log softmax_j, targets equal among what is true; mean of rows that have any.

    >>> cross_entropy(torch.zeros(2, 4), torch.tensor([[True, True, False, False], [False] * 4]))
    tensor(1.3863)
    """
    counts = true.sum(1, keepdim=True)
    target = true / counts.clamp_min(1)
    return -(target * torch.log_softmax(logits, 1)).sum() / (counts > 0).sum().clamp_min(1)
