"""HIB, PCME's ancestor: whether two items of one modality show the same.

    p_ik = mean over J² of sigmoid(b − a ‖z_i − z_k‖)
    loss = ½ (mean nll of the pairs that match + mean nll of those that do not) + weight · kl

The two modalities know nothing of each other: the loss is taken within one, and across them matching is chance.

Oh et al. 2019 (hedged instance embeddings, ICLR), §2.1 to §2.3; the paper's §3.1.2.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pcme.core.checks import require, require_known
from pcme.embedding import Embedding
from pcme.methods import likelihood
from pcme.methods.base import GaussianMethod, SigmoidObjective, Terms, registry, require_gaussians
from pcme.methods.pairs import PairLoss, Truth
from pcme.methods.regularisers import kl_to_standard_normal
from pcme.scores import create
from pcme.scores.base import Score

Side = Literal["images", "captions", "both"]


@registry.register("hib")
@dataclass(frozen=True)
class HIB(GaussianMethod):
    """HIB: sampled match probability of items of one modality, by class.

    J = 8, and β = 1e-4 on the sum over dimensions and both items of a pair, which for D = 512 is
    kl_weight 0.1 on the mean: settings we could not check against a release of the authors.
    Differs: they draw as many pairs that match as pairs that do not; here all pairs of a batch are
    weighted so. Means have length one, a and b start where PCME's do. A batch needs several items
    of a class: sampling "one-per-class" has none to learn from.
    """

    side: Side = "images"
    samples: int = 8
    scale: float = 10.0
    shift: float = 10.0
    kl_weight: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("side", self.side, get_args(Side))
        require("scale", self.scale > 0, "above 0", self.scale)
        require("samples", self.samples >= 1, "at least 1", self.samples)
        self._require_sigma()

    def objective(self) -> "WithinModality":
        """The loss."""
        return WithinModality(self)


class WithinModality(SigmoidObjective):
    """The loss of this module's docstring."""

    def __init__(self, method: HIB) -> None:
        super().__init__(method.scale, method.shift)
        self.method = method

    def forward(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> Terms:
        """The terms match and kl, of the chosen side or added for both."""
        left, right = require_gaussians("HIB", images, captions)
        chosen = {"images": [left], "captions": [right], "both": [left, right]}[self.method.side]
        same = matches & matches.T  # each's caption is true of the other's image: by class, the class
        nlls = [self.pair_nll(items, items, same, generator) for items in chosen]
        terms = {
            "match": lambda: torch.stack([balanced(nll, same) for nll in nlls]).sum(),
            "kl": lambda: torch.stack([kl_to_standard_normal(items) for items in chosen]).sum(),
        }
        return Terms.of(terms, **self.method.weights)

    def pair_nll(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> PairLoss:
        """The sampled loss of every pair of items."""
        a, b, samples = self.scale, self.shift, self.method.samples
        return likelihood.pair_nll(images, captions, matches, scale=a, shift=b, samples=samples, generator=generator)

    def score(self) -> Score:
        """The log match probability with the learned a and b."""
        return create("match_prob", **self.learned())


def balanced(nll: Float[Tensor, "b b"], same: Bool[Tensor, "b b"]) -> Float[Tensor, ""]:
    """The mean of the pairs that match and that of the others, half each; none is with itself.

    >>> nll = torch.tensor([[9.0, 1.0, 2.0], [1.0, 9.0, 4.0], [2.0, 4.0, 9.0]])
    >>> same = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
    >>> balanced(nll, same).item() == (1 + (2 + 4) / 2) / 2
    True
    """
    others = ~torch.eye(len(nll), dtype=torch.bool, device=nll.device)
    halves = [(nll * kind).sum() / kind.sum().clamp_min(1) for kind in (same & others, ~same & others)]
    return torch.stack(halves).mean()
