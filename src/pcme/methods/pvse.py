"""PVSE: K unit vectors per item; a pair is as similar as the best two of them.

    loss = rank + 0.1 · diversity + 0.01 · mmd

rank is the triplet loss on the largest of K × K cosines; diversity keeps the K attentions of an item from seeing the
same; mmd draws the two modalities' distributions together.

Song & Soleymani 2019 (PVSE, CVPR); the baseline of the paper's §4.2, §4.3 and §E.2.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pcme.core.checks import require
from pcme.embedding import Embedding, Points
from pcme.errors import ShapeError
from pcme.methods.base import Terms, registry
from pcme.methods.pairs import Truth
from pcme.methods.triplets import Negatives, TripletMethod, TripletObjective, best_cosine
from pcme.nn.heads import HeadOptions, SeveralPoints
from pcme.scores import create
from pcme.scores.base import Score

KERNEL_WIDTH = 0.5
"""γ in the kernel exp(−γ ‖x − y‖) of the authors' code."""


@registry.register("pvse")
@dataclass(frozen=True)
class PVSE(TripletMethod):
    """PVSE: K embeddings per item, multiple-instance triplets, diversity and MMD terms.

    The authors' settings for COCO: margin 0.1, hardest negatives, K = 2, weights 0.1 and 0.01 (both
    terms only for K > 1). `negatives="all"` and "semi-hard" are other rows of the paper's §E.3.
    Differs: a warm start for hardest and semi-hard negatives (`Triplets`), and all true matches
    count; `warm_start=0, positives="diagonal"` is theirs. Their optimiser and epochs are a recipe's
    business.
    """

    averaged: ClassVar[bool] = True
    margin: float = 0.1
    negatives: Negatives = "hardest"
    warm_start: float = 0.5
    embeddings: int = 2
    diversity_weight: float = 0.1
    mmd_weight: float = 0.01
    attention_hidden: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require("embeddings", self.embeddings >= 1, "at least 1", self.embeddings)

    def heads(self, dim: int) -> HeadOptions:
        """K attentions per item."""
        return HeadOptions(dim, covariance="none", points=self.embeddings, attention_hidden=self.attention_hidden)

    def objective(self) -> "MultipleInstance":
        """The loss."""
        return MultipleInstance(self)


class MultipleInstance(TripletObjective):
    """The loss of this module's docstring."""

    method: PVSE

    def forward(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> Terms:
        """The term rank; with K > 1 the terms diversity and mmd too."""
        if self.method.embeddings == 1:
            return super().forward(images, captions, matches, generator)
        left, right = _several(images), _several(captions)
        terms = {
            "rank": lambda: self.triplets(best_cosine(left, right), matches),
            "diversity": lambda: diversity(left.residuals) + diversity(right.residuals),
            "mmd": lambda: discrepancy(left.x.flatten(0, 1), right.x.flatten(0, 1)),
        }
        return Terms.of(terms, **self.method.weights)

    def score(self) -> Score:
        """−min ‖x − y‖² = 2 max cos − 2 for unit vectors: the order of the best cosines."""
        return create("nearest")


def diversity(residuals: Float[Tensor, "n k d"]) -> Float[Tensor, ""]:
    """How alike the K residuals of an item are: ‖Gram − 1‖ / K² of their directions, mean of items.

    Song & Soleymani 2019, diversity loss; on the residuals, as in the authors' code.

    >>> alike, apart = [[1.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [0.0, 3.0]]
    >>> diversity(torch.tensor([alike, apart]))  # the mean of √2 / 4 and 0
    tensor(0.1768)
    """
    unit = F.normalize(residuals, dim=-1)
    gram = unit @ unit.transpose(1, 2)
    k = gram.shape[1]
    others = gram.masked_fill(torch.eye(k, dtype=torch.bool, device=gram.device), 0)
    norms: Float[Tensor, " n"] = torch.linalg.matrix_norm(others)
    return norms.mean() / k**2


def discrepancy(x: Float[Tensor, "n d"], y: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Maximum mean discrepancy of two samples: mean of K(x, x') − 2 K(x, y) + K(y, y').

    Song & Soleymani 2019; as in the authors' code, the norm in the kernel exp(−γ ‖x − y‖) is not squared.

    >>> discrepancy(torch.eye(3), torch.eye(3)).item()
    0.0
    """

    def mean_kernel(left: Float[Tensor, "l d"], right: Float[Tensor, "r d"]) -> Float[Tensor, ""]:
        # By products, the distance of a point to itself would be the root of a rounding error.
        distance = torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist")
        return torch.exp(-KERNEL_WIDTH * distance).mean()

    return mean_kernel(x, x) - 2 * mean_kernel(x, y) + mean_kernel(y, y)


def _several(items: Embedding) -> SeveralPoints:
    if isinstance(items, SeveralPoints):
        return items
    got = f"Points with K = {items.x.shape[1]}" if isinstance(items, Points) else "Gaussians"
    remedy = "Take the embeddings of a tower (SeveralPoints)."
    raise ShapeError(f"PVSE with several embeddings needs their residuals too, got {got} alone. {remedy}")
