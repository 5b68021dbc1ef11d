"""What keeps σ from collapsing and means from huddling together.

Both are means over items and dimensions, so their weights depend neither on the size of the batch
nor on D. Paper: §3.2.1 (KL), §A.1 (uniformity).
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.embedding import Gaussian

__all__ = ["kl_to_standard_normal", "uniformity"]


def kl_to_standard_normal(items: Gaussian) -> Float[Tensor, ""]:
    """KL(N(μ, σ²) ‖ N(0, 1)) = ½ (μ² + σ² − 1 − 2 log σ), mean over items and dimensions.

    Differs: the authors' code reads log σ as log σ², takes μ from samples, and sums. Their weight β
    on a sum over D is here β·D/2 on a mean, and half of that for the right σ (docs/ERRATA.md).
    """
    log_sigma = items.log_sigma.expand_as(items.mean)
    value = items.mean.square() + items.variance - 1 - 2 * log_sigma
    return 0.5 * value.mean()


def uniformity(points: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """log of the mean of exp(−2 ‖x − y‖²) over distinct pairs. Paper: §A.1.

    Differs: the paper sums over all pairs, an item with itself included; the authors' code takes
    the log of the mean over 128 samples drawn with replacement. Here: all means of the batch.
    """
    squared = torch.pdist(points).square()
    return torch.logsumexp(-2 * squared, 0) - math.log(len(squared))
