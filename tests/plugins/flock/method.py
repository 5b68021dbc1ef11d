"""A method in one file: cross entropy of the plugin's own match probability."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from pcme import scores
from pcme.embedding import Gaussian
from pcme.methods.base import Method, Objective, Terms, registry
from pcme.nn.heads import HeadOptions
from pcme.scores.base import Score


@registry.register("flock-logistic")
@dataclass(frozen=True)
class Logistic(Method):
    """Cross entropy of sigmoid(1 − scale · L1 distance), and a pull of log σ towards its start."""

    scale: float = 2.0
    log_sigma: float = -2.0

    def heads(self, dim: int) -> HeadOptions:
        return HeadOptions(dim, log_sigma=self.log_sigma)

    def objective(self) -> "LogisticObjective":
        return LogisticObjective(self)


class LogisticObjective(Objective):
    """The loss; log(scale) is learned."""

    def __init__(self, method: Logistic) -> None:
        super().__init__()
        self.log_sigma = method.log_sigma
        self.log_scale = nn.Parameter(torch.tensor(method.scale).log())

    def forward(
        self, images: Gaussian, captions: Gaussian, matches: Bool[Tensor, "b b"], generator: torch.Generator
    ) -> Terms:
        logits = 1 - self.log_scale.exp() * torch.cdist(images.mean, captions.mean, p=1)
        pull = (images.log_sigma - self.log_sigma).square().mean()
        match = binary_cross_entropy_with_logits(logits, matches.to(logits.dtype))
        return Terms({"match": match, "sigma": pull}, {"sigma": 0.1})

    def score(self) -> Score:
        return scores.create("flock-manhattan", scale=self.log_scale.exp().item())
