"""PCME++: match probability from the expected squared distance, which needs no samples.

    p_ij = sigmoid(b − a (‖μ_i−μ_j‖² + Σ_d (σ_i² + σ_j²)))
    loss = match + 0.1 · pseudo + weight · kl

match is the binary cross entropy of all pairs with the truth, pseudo that with a truth to which pairs were added that
look at least as true; a part of the images is mixed, with soft truth.

Chun 2024 (PCME++, ICLR), §2.2 to §2.4. The paper's successor, by one of its authors.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pcme.core.checks import require, require_known
from pcme.embedding import Embedding, Gaussian
from pcme.methods.base import GaussianMethod, SigmoidObjective, Terms, registry, require_gaussians
from pcme.methods.mixing import mix
from pcme.methods.pairs import Images, PairLoss, Positives, SoftTruth, Truth, positive_pairs
from pcme.methods.regularisers import kl_to_standard_normal
from pcme.scores import create
from pcme.scores.base import Score


@registry.register("pcme++")
@dataclass(frozen=True)
class PCMEpp(GaussianMethod):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("positives", self.positives, get_args(Positives))
        require("scale", self.scale > 0, "above 0", self.scale)
        require("smoothing", 0 <= self.smoothing < 0.5, "from 0 to below 0.5", self.smoothing)
        require("mixing", 0 <= self.mixing <= 1, "from 0 to 1", self.mixing)
        require("mixing_alpha", self.mixing_alpha > 0, "above 0", self.mixing_alpha)
        self._require_sigma()

    def objective(self) -> "ClosedForm":
        """The loss."""
        return ClosedForm(self)

    def mixed(self, images: Images, matches: Truth, generator: np.random.Generator) -> tuple[Images, SoftTruth]:
        """A quarter of the images mixed with others; a caption is true of its share. §2.4."""
        if not self.mixing:
            return images, matches
        return mix(images, self.truth(matches), generator, share=self.mixing, alpha=self.mixing_alpha)

    def truth(self, matches: SoftTruth) -> Float[Tensor, "b b"]:
        """From 0 to 1, how far a pair matches; what `mixed` gave is that already."""
        return matches if matches.is_floating_point() else positive_pairs(matches, self.positives).float()


class ClosedForm(SigmoidObjective):
    """The loss of this module's docstring."""

    def __init__(self, method: PCMEpp) -> None:
        super().__init__(method.scale, method.shift)
        self.method = method

    def forward(self, images: Embedding, captions: Embedding, matches: SoftTruth, generator: torch.Generator) -> Terms:
        """The terms match, pseudo and kl."""
        left, right = require_gaussians("PCME++", images, captions)
        logits = self._logits(left, right)
        truth = self.method.truth(matches).to(logits)
        target = truth + self.method.smoothing * (1 - 2 * truth)
        terms = {
            "match": lambda: _cross_entropy(logits, target),
            "pseudo": lambda: _pseudo(logits, target),
            "kl": lambda: kl_to_standard_normal(left) + kl_to_standard_normal(right),
        }
        return Terms.of(terms, **self.method.weights)

    def pair_nll(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> PairLoss:
        """The binary cross entropy of every pair, in closed form."""
        logits = self._logits(*require_gaussians("PCME++", images, captions))
        return F.binary_cross_entropy_with_logits(logits, matches.to(logits), reduction="none")

    def _logits(self, images: Gaussian, captions: Gaussian) -> Float[Tensor, "b c"]:
        return self.shift - self.scale * expected_distance(images, captions)

    def score(self) -> Score:
        """The log match probability with the learned a and b: the order of `csd`."""
        return create("csd_prob", **self.learned())


def expected_distance(images: Gaussian, captions: Gaussian) -> Float[Tensor, "b c"]:
    """E‖z₁−z₂‖² = ‖μ₁−μ₂‖² + Σ_d (σ₁² + σ₂²) of all pairs. Chun 2024, Eq. (1).

    >>> one = Gaussian(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2))
    >>> expected_distance(one, Gaussian(torch.zeros(1, 2), torch.zeros(1, 1)))
    tensor([[29.]])
    """
    x, y = (items.mean.square().sum(1) + items.variance.sum(1) for items in (images, captions))
    return x[:, None] + y - 2 * images.mean @ captions.mean.T


def with_pseudo_positives(target: Float[Tensor, "b c"], logits: Float[Tensor, "b c"]) -> Float[Tensor, "b c"]:
    """The targets of each row, its best one given to all pairs that look as true. Chun 2024, §2.3.

    "As true" is a logit at least as large as that of the pair with the best target, or the largest of several such.

    >>> with_pseudo_positives(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[2.0, 3.0, 1.0]]))
    tensor([[1., 1., 0.]])
    """
    best = target.amax(1, keepdim=True)
    bar = logits.masked_fill(target < best, -torch.inf).amax(1, keepdim=True)
    return torch.where(logits >= bar, best, target)


def _pseudo(logits: Float[Tensor, "b b"], target: Float[Tensor, "b b"]) -> Float[Tensor, ""]:
    """The cross entropy with pseudo-positives, mean of both directions."""
    directions = (logits, target), (logits.T, target.T)
    return torch.stack([_cross_entropy(x, with_pseudo_positives(t, x.detach())) for x, t in directions]).mean()


def _cross_entropy(logits: Float[Tensor, "b c"], target: Float[Tensor, "b c"]) -> Float[Tensor, ""]:
    """Of all pairs, as the loss of an item."""
    total = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
    return total / len(logits)
