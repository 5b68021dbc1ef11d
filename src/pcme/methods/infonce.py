"""InfoNCE: which caption of a batch is the image's, and which image the caption's.

    loss = ½ (cross entropy of softmax over captions + that over images) of logits s · cos(i, j)

with a learned s, the inverse temperature.

Radford et al. 2021 (CLIP), §2.3 and Fig. 3. Not in the paper; asked for by users of its code.
"""

import math
from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pcme.core.checks import require, require_known
from pcme.embedding import Embedding
from pcme.methods.base import Objective, PointMethod, Terms, registry
from pcme.methods.pairs import Positives, Truth, positive_pairs
from pcme.scores import create
from pcme.scores.base import Score


@registry.register("infonce")
@dataclass(frozen=True)
class InfoNCE(PointMethod):
    """InfoNCE: symmetric cross entropy over the batch, with a learned temperature.

    CLIP's settings: the temperature starts at 0.07, is learned as a logarithm, and its inverse is kept at 100 or below.
    With `positives="matches"` an item's target is shared equally by all its matches; "diagonal" is CLIP's.
    """

    temperature: float = 0.07
    largest_scale: float = 100.0
    positives: Positives = "matches"

    def __post_init__(self) -> None:
        require_known("positives", self.positives, get_args(Positives))
        valid = self.largest_scale > 0 and 1 / self.largest_scale <= self.temperature
        rule = f"above 0 and at least 1 / temperature = 1 / {self.temperature}"
        require("largest_scale", valid, rule, self.largest_scale)

    def objective(self) -> "Contrast":
        """The loss."""
        return Contrast(self)


class Contrast(Objective):
    """The loss of this module's docstring; log s is learned."""

    def __init__(self, method: InfoNCE) -> None:
        super().__init__()
        self.method = method
        self.log_scale = nn.Parameter(torch.tensor(-math.log(method.temperature)))

    def forward(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> Terms:
        """The term contrast."""
        with torch.no_grad():  # the weight itself is capped, so that it can come down again
            self.log_scale.clamp_(max=math.log(self.method.largest_scale))
        logits = self.log_scale.exp() * (images.points()[:, 0] @ captions.points()[:, 0].T)
        true = positive_pairs(matches, self.method.positives)
        loss = (cross_entropy(logits, true) + cross_entropy(logits.T, true.T)) / 2
        return Terms.of({"contrast": lambda: loss})

    def score(self) -> Score:
        """−‖x − y‖² = 2 cos − 2 for unit vectors: the order of the logits."""
        return create("mean")

    def report(self) -> dict[str, Float[Tensor, ""] | float]:
        """The inverse temperature."""
        return {"scale": self.log_scale.detach().exp().clamp_max(self.method.largest_scale)}


def cross_entropy(logits: Float[Tensor, "b c"], true: Bool[Tensor, "b c"]) -> Float[Tensor, ""]:
    """−Σ_j target_j log softmax_j, the targets of a row's matches equal; mean of rows with any.

    >>> cross_entropy(torch.zeros(2, 4), torch.tensor([[True, True, False, False], [False] * 4]))
    tensor(1.3863)
    """
    counts = true.sum(1, keepdim=True)
    target = true / counts.clamp_min(1)
    return -(target * torch.log_softmax(logits, 1)).sum() / (counts > 0).sum().clamp_min(1)
