"""Regularisers: against a collapse of σ and of means, and for a σ that fits the matches.

All are means over items and dimensions: their weights depend neither on the batch nor on D. Paper: §3.2.1 (KL), §A.1.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from pcme.embedding import Gaussian
from pcme.kernels import overlap

UNIFORMITY = 2.0
"""t of §A.1."""
FEW = 512
"""Points whose distances are computed one by one."""
BREADTH_SLOPE = 4.0
"""How the log odds of a match grow with mean log σ in `breadth`: any positive number would do, and this one spreads
log σ by about one between a caption that fits everything and one that fits 1 %."""


def kl_to_standard_normal(items: Gaussian) -> Float[Tensor, ""]:
    """KL(N(μ, σ²) ‖ N(0, 1)) = ½ (μ² + σ² − 1 − 2 log σ), mean over items and dimensions.

    Differs: the authors' code reads log σ as log σ², takes μ from samples, and sums. Their weight β on a sum over D is
    here β·D/2 on a mean; half of that for the right σ (docs/science/errata.md).
    """
    log_sigma = items.log_sigma.expand_as(items.mean)
    value = items.mean.square() + items.variance - 1 - 2 * log_sigma
    return 0.5 * value.mean()


def uniformity(points: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """log of the mean of exp(−t ‖x − y‖²) over distinct pairs of points, t = 2. Paper: §A.1.

    Differs: the paper sums over all pairs (`uniformity_sum`); the authors' code takes 128 samples with replacement.
    """
    squared = _squared_distances(points)
    return torch.logsumexp(-UNIFORMITY * squared, 0) - math.log(len(squared))


def uniformity_sum(points: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Σ exp(−t ‖x − y‖²) over all ordered pairs, a point with itself included: as §A.1 prints it."""
    return len(points) + 2 * torch.exp(-UNIFORMITY * _squared_distances(points)).sum()


def expected_uniformity(items: Gaussian) -> Float[Tensor, ""]:
    """log of the mean of E exp(−t ‖z − z'‖²) over all ordered pairs of items: `uniformity` of J → ∞ samples each.

    Two draws of one item are a pair as well, so the gradient reaches σ. Per dimension, with s = σ₁² + σ₂² and
    s' = s + 1/2t, the expectation is exp(−Δ²/2s') / √(2t s'): the expected likelihood kernel of wider items.
    """
    wider = Gaussian(items.mean, 0.5 * (items.variance + 1 / (4 * UNIFORMITY)).log())
    m, log_sum = overlap.terms(wider, wider)
    log_expectation = -(m + log_sum + items.dim * math.log(2 * UNIFORMITY)) / 2
    return torch.logsumexp(log_expectation.flatten(), 0) - math.log(log_expectation.numel())


def _squared_distances(points: Float[Tensor, "n d"]) -> Float[Tensor, " pairs"]:
    """Of distinct pairs; of many points, such as samples, by a matrix product."""
    if len(points) <= FEW:
        return torch.pdist(points).square()
    square = points.square().sum(1)
    squared = torch.addmm(square[:, None] + square, points, points.T, alpha=-2).clamp_min(0)
    rows, columns = torch.triu_indices(len(points), len(points), 1, device=points.device)
    return squared[rows, columns]


def spread_fit(energy: Float[Tensor, "b c"], matches: Bool[Tensor, "b c"]) -> Float[Tensor, ""]:
    """−log density of a caption's matches under its Gaussian, 1/D of it: mean over captions.

    `energy` is that of `likelihood.overlap_energy`. For fixed means it is least where σ₁² + σ₂² is the mean of
    (μ₁ − μ₂)² over the matches, dimension by dimension: σ is then how far apart the images lie that a caption fits. Not
    in the paper; docs/science/sigma.md says why it is needed.
    """
    counts = matches.sum(0)
    share = matches / counts.clamp_min(1)
    return (share * energy).sum() / (counts > 0).sum().clamp_min(1)


def effective_matches(p: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
    """The number of the m items that each of the n items could be, by these probabilities.

    The perplexity of a row: k where k items are equally likely and the others are not.

    >>> effective_matches(torch.tensor([[0.9, 0.9, 0.0, 0.0], [0.2, 0.2, 0.2, 0.2]]))
    tensor([2., 4.])
    """
    share = p / p.sum(1, keepdim=True).clamp_min(torch.finfo(p.dtype).tiny)
    return torch.exp(torch.special.entr(share).sum(1))


def breadth(
    items: Gaussian, share: Float[Tensor, " n"], *, centre: float, offset: Float[Tensor, ""]
) -> Float[Tensor, ""]:
    """How badly an item's mean log σ predicts the share of items that it could be.

    Cross entropy of `share` with sigmoid(offset + slope · (E_d[log σ] − centre)), mean over items: an item that could
    be many must be wide, whatever the likelihood leaves open. Not in the paper, see docs/science/sigma.md.
    """
    logits = offset + BREADTH_SLOPE * (items.mean_log_sigma() - centre)
    return F.binary_cross_entropy_with_logits(logits, share)
