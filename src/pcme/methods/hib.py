"""HIB: PCME's ancestor, within one modality: do two images (or two captions) show the same?

    p_ik = mean over J² of sigmoid(b − a ‖z_i − z_k‖)
    loss = ½ (mean nll of the pairs that match + mean nll of those that do not) + weight · kl

The two modalities know nothing of each other: what it learns is judged within one, and across them
it is chance.

Oh et al. 2019 (hedged instance embeddings, ICLR), §2.1 to §2.3; the paper's §3.1.2.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

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
from pcme.methods.likelihood import pair_nll
from pcme.methods.regularisers import kl_to_standard_normal
from pcme.nn.heads import Covariance, HeadOptions
from pcme.scores import create
from pcme.scores.base import Score

__all__ = ["HIB", "WithinModality", "balanced", "same_class"]

Side = Literal["images", "captions", "both"]


@registry.register("hib")
@dataclass(frozen=True)
class HIB(Method):
    """HIB: sampled match probability of items of one modality, by class.

    J = 8, and β = 1e-4 on the sum over dimensions and both items of a pair, which for D = 512 is
    kl_weight 0.1 on the mean: settings we could not check against a release of the authors.
    Differs: they draw as many pairs that match as pairs that do not, here all pairs of a batch are
    taken and weighted so; means have length one, a and b start where PCME's do. A batch needs
    several items of a class: sampling "one-per-class" has none to learn from.
    """

    side: Side = "images"
    samples: int = 8
    scale: float = 10.0
    shift: float = 10.0
    kl_weight: float = 0.1
    covariance: Covariance = "diagonal"
    log_sigma: float = -3.5
    mean_attention: bool = True
    sigma_attention: bool = True
    attention_hidden: int | None = None

    def __post_init__(self) -> None:
        require_known("side", self.side, get_args(Side))
        if self.scale <= 0 or self.samples < 1:
            raise ConfigError(
                f"scale must be above 0 and samples at least 1 - got {self.scale}, {self.samples}"
            )
        require_not_negative(kl_weight=self.kl_weight)
        if self.covariance == "none":
            raise ConfigError('HIB samples - use covariance diagonal or isotropic, got "none"')

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

    def objective(self) -> "WithinModality":
        """The loss."""
        return WithinModality(self)


class WithinModality(Objective):
    """The loss of this module's docstring; a and b are learned."""

    def __init__(self, method: HIB) -> None:
        super().__init__()
        self.method = method
        self.scale = nn.Parameter(torch.tensor(float(method.scale)))
        self.shift = nn.Parameter(torch.tensor(float(method.shift)))

    def forward(
        self,
        images: Embedding,
        captions: Embedding,
        matches: Bool[Tensor, "b b"],
        generator: torch.Generator,
    ) -> Terms:
        """The terms match and kl, of the chosen side or added for both."""
        chosen = {"images": [images], "captions": [captions], "both": [images, captions]}
        same = same_class(matches)
        parts, spreads = [], []
        for items in chosen[self.method.side]:
            if not isinstance(items, Gaussian):
                raise ShapeError(
                    f"HIB samples Gaussians, got {type(items).__name__}. Use heads with a sigma."
                )
            nll = pair_nll(
                items,
                items,
                same,
                scale=self.scale,
                shift=self.shift,
                samples=self.method.samples,
                generator=generator,
            )
            parts.append(balanced(nll, same))
            spreads.append(kl_to_standard_normal(items))
        values = {"match": torch.stack(parts).sum(), "kl": torch.stack(spreads).sum()}
        return Terms(values, {"kl": self.method.kl_weight})

    def score(self) -> Score:
        """The log match probability with the learned a and b."""
        return create("match_prob", scale=self.scale.item(), shift=self.shift.item())

    def report(self) -> dict[str, float]:
        """a and b."""
        return {"scale": self.scale.item(), "shift": self.shift.item()}


def same_class(matches: Bool[Tensor, "b b"]) -> Bool[Tensor, "b b"]:
    """Whether items i and k are a matching pair: each's caption is true of the other's image.

    By class this is the class; where captions tell less than images show, it is as near to "the
    same" as a batch knows.
    """
    return matches & matches.T


def balanced(nll: Float[Tensor, "b b"], same: Bool[Tensor, "b b"]) -> Float[Tensor, ""]:
    """The mean of the pairs that match and that of the others, half each; none is with itself.

    >>> nll = torch.tensor([[9.0, 1.0, 2.0], [1.0, 9.0, 4.0], [2.0, 4.0, 9.0]])
    >>> same = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
    >>> balanced(nll, same).item() == (1 + (2 + 4) / 2) / 2
    True
    """
    others = ~torch.eye(len(nll), dtype=torch.bool, device=nll.device)
    halves = [
        (nll * kind).sum() / kind.sum().clamp_min(1) for kind in (same & others, ~same & others)
    ]
    return torch.stack(halves).mean()
