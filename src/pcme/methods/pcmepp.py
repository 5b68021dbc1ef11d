"""PCME++: match probability from the expected squared distance, which needs no samples.

    p_ij = sigmoid(b − a (‖μ_i−μ_j‖² + Σ_d (σ_i² + σ_j²)))
    loss = match + 0.1 · pseudo + weight · kl

match is the binary cross entropy of all pairs with the truth, pseudo that with a truth to which
pairs were added that look at least as true; a part of the images is mixed, with soft truth.

Chun 2024 (PCME++, ICLR), §2.2 to §2.4. The paper's successor, by one of its authors.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError, ShapeError
from pcme.methods.base import (
    Method,
    Objective,
    Terms,
    registry,
    require_known,
    require_not_negative,
)
from pcme.methods.mixing import mix
from pcme.methods.regularisers import kl_to_standard_normal
from pcme.nn.heads import Covariance, HeadOptions
from pcme.scores import create
from pcme.scores.base import Score

__all__ = ["ClosedForm", "PCMEpp", "expected_distance", "with_pseudo_positives"]

Positives = Literal["diagonal", "matches"]


@registry.register("pcme++")
@dataclass(frozen=True)
class PCMEpp(Method):
    """PCME++: closed-form distance, binary cross entropy, pseudo-positives, mixed images.

    The authors' settings: a = b = 5, α = 0.1 for pseudo-positives, 25 % of the images mixed with
    Beta(2, 2), labels smoothed by 1e-4; β = 1e-4 on twice the mean over B² pairs, which at B = 128
    is kl_weight 0.0064 on the sum over pairs / B that all methods have here.
    Differs: all true matches count ("diagonal" is theirs, as soon as they mix); heads and backbones
    are those of every method here, not CLIP's with GPO; the KL term is never dropped; of several
    true pairs the one with the largest logit says which others look as true, where theirs takes the
    first; and where the features of a held backbone are kept, it is those that are mixed.
    """

    scale: float = 5.0
    shift: float = 5.0
    positives: Positives = "matches"
    pseudo_weight: float = 0.1
    kl_weight: float = 0.0064
    smoothing: float = 1e-4
    mixing: float = 0.25
    mixing_alpha: float = 2.0
    covariance: Covariance = "diagonal"
    log_sigma: float = -3.5
    mean_attention: bool = True
    sigma_attention: bool = True
    attention_hidden: int | None = None

    def __post_init__(self) -> None:
        require_known("positives", self.positives, get_args(Positives))
        for valid, rule, given in (
            (self.scale > 0, "scale must be above 0", self.scale),
            (0 <= self.smoothing < 0.5, "smoothing must be from 0 to below 0.5", self.smoothing),
            (0 <= self.mixing <= 1, "mixing must be from 0 to 1", self.mixing),
            (self.mixing_alpha > 0, "mixing_alpha must be above 0", self.mixing_alpha),
            (
                self.covariance != "none",
                "covariance must be diagonal or isotropic",
                self.covariance,
            ),
        ):
            if not valid:
                raise ConfigError(f"{rule} - got {given}")
        require_not_negative(pseudo_weight=self.pseudo_weight, kl_weight=self.kl_weight)

    def heads(self, dim: int) -> HeadOptions:
        """The heads of Fig. 3, as for PCME."""
        return HeadOptions(
            dim,
            covariance=self.covariance,
            mean_attention=self.mean_attention,
            sigma_attention=self.sigma_attention,
            log_sigma=self.log_sigma,
            attention_hidden=self.attention_hidden,
        )

    def objective(self) -> "ClosedForm":
        """The loss."""
        return ClosedForm(self)

    def mixed(
        self,
        images: Shaped[Tensor, "b ..."],
        matches: Bool[Tensor, "b b"],
        generator: np.random.Generator,
    ) -> tuple[Shaped[Tensor, "b ..."], Bool[Tensor, "b b"] | Float[Tensor, "b b"]]:
        """A quarter of the images mixed with others; a caption is true of its share. §2.4."""
        if not self.mixing:
            return images, matches
        truth = self.truth(matches)
        return mix(images, truth, generator, share=self.mixing, alpha=self.mixing_alpha)

    def truth(self, matches: Bool[Tensor, "b b"] | Float[Tensor, "b b"]) -> Float[Tensor, "b b"]:
        """From 0 to 1, how far a pair matches; what `mixed` gave is that already."""
        if matches.is_floating_point():
            return matches
        if self.positives == "diagonal":
            return torch.eye(*matches.shape, device=matches.device)
        return matches.float()


class ClosedForm(Objective):
    """The loss of this module's docstring; a and b are learned."""

    def __init__(self, method: PCMEpp) -> None:
        super().__init__()
        self.method = method
        self.scale = nn.Parameter(torch.tensor(float(method.scale)))
        self.shift = nn.Parameter(torch.tensor(float(method.shift)))

    def forward(
        self,
        images: Embedding,
        captions: Embedding,
        matches: Bool[Tensor, "b b"] | Float[Tensor, "b b"],
        generator: torch.Generator,
    ) -> Terms:
        """The terms match, pseudo and kl."""
        method = self.method
        if not isinstance(images, Gaussian) or not isinstance(captions, Gaussian):
            held = f"{type(images).__name__} and {type(captions).__name__}"
            raise ShapeError(f"PCME++ compares Gaussians, got {held}. Use heads with a sigma.")
        logits = self.shift - self.scale * expected_distance(images, captions)
        truth = method.truth(matches).to(logits)
        target = truth + method.smoothing * (1 - 2 * truth)
        pseudo = (
            _cross_entropy(logits, with_pseudo_positives(target, logits.detach())),
            _cross_entropy(logits.T, with_pseudo_positives(target.T, logits.detach().T)),
        )
        values = {
            "match": _cross_entropy(logits, target),
            "pseudo": torch.stack(pseudo).mean(),
            "kl": kl_to_standard_normal(images) + kl_to_standard_normal(captions),
        }
        return Terms(values, {"pseudo": method.pseudo_weight, "kl": method.kl_weight})

    def score(self) -> Score:
        """The log match probability with the learned a and b: the order of `csd`."""
        return create("csd_prob", scale=self.scale.item(), shift=self.shift.item())

    def report(self) -> dict[str, float]:
        """a and b."""
        return {"scale": self.scale.item(), "shift": self.shift.item()}


def expected_distance(images: Gaussian, captions: Gaussian) -> Float[Tensor, "b c"]:
    """E‖z₁−z₂‖² = ‖μ₁−μ₂‖² + Σ_d (σ₁² + σ₂²) of all pairs. Chun 2024, Eq. (1).

    >>> one = Gaussian(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2))
    >>> expected_distance(one, Gaussian(torch.zeros(1, 2), torch.zeros(1, 1)))
    tensor([[29.]])
    """
    own = [items.mean.square().sum(1) + items.variance.sum(1) for items in (images, captions)]
    return own[0][:, None] + own[1] - 2 * images.mean @ captions.mean.T


def with_pseudo_positives(
    target: Float[Tensor, "b c"], logits: Float[Tensor, "b c"]
) -> Float[Tensor, "b c"]:
    """The targets of each row, its best one given to all pairs that look as true. Chun 2024, §2.3.

    "As true" is a logit at least as large as that of the pair with the best target; of several such
    pairs, the one with the largest logit.

    >>> with_pseudo_positives(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[2.0, 3.0, 1.0]]))
    tensor([[1., 1., 0.]])
    """
    best = target.amax(1, keepdim=True)
    bar = logits.masked_fill(target < best, -torch.inf).amax(1, keepdim=True)
    return torch.where(logits >= bar, best, target)


def _cross_entropy(logits: Float[Tensor, "b c"], target: Float[Tensor, "b c"]) -> Float[Tensor, ""]:
    """Of all pairs, as the loss of an item."""
    total = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
    return total / len(logits)
