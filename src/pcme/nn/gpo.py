"""GPO: pooling with learned weights of an item's sorted features.

    pooled_d = Σ_k θ_k · (the k-th largest of feature d over the item's sites),   Σ_k θ_k = 1

The weights θ depend on the number of sites alone. Mean pooling is θ_k = 1/n, and max pooling is θ_1 = 1.

Chen et al. 2021 (VSE∞, "Learning the Best Pooling Strategy for Visual Semantic Embedding", CVPR), §3.
"""

import math

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from pcme.nn.backbone import unset
from pcme.nn.recurrent import drawn

TEMPERATURE = 0.1
"""Of the softmax that gives the weights, in the authors' code."""


class GPO(nn.Module):
    """The generalised pooling operator: θ = softmax(w · (mean of a GRU's two directions over the positions) / 0.1).

    The authors' settings: encodings of the positions and states of 32 numbers each, both here the default.
    Differs: they drop up to a fifth of the sites at random in training ("size augmentation"), and add an MLP to the
    linear map of a detector's regions; here the map is all that comes before.

    >>> pool = GPO(generator=torch.Generator().manual_seed(0))
    >>> pool(torch.ones(2, 5, 3), None).detach().round(decimals=3)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """

    def __init__(self, *, generator: torch.Generator, encoding: int = 32, hidden: int = 32) -> None:
        super().__init__()
        self.encoding = encoding
        self.ahead, self.back = (drawn(lambda: nn.GRU(encoding, hidden, batch_first=True), generator) for _ in range(2))
        self.score = unset(lambda: nn.Linear(hidden, 1, bias=False))
        bound = 1 / math.sqrt(hidden)
        nn.init.uniform_(self.score.weight, -bound, bound, generator=generator)

    def forward(self, features: Float[Tensor, "b s d"], mask: Bool[Tensor, "b s"] | None) -> Float[Tensor, "b d"]:
        """The pooled features of the sites that are there."""
        sites = features.shape[1]
        if mask is None:
            counts = torch.full((1,), sites, device=features.device)
            return torch.einsum("s,bsd->bd", self.weights(counts, sites)[0], features.sort(1, descending=True).values)
        counts = mask.sum(1)
        ranked = features.masked_fill(~mask[..., None], -torch.inf).sort(1, descending=True).values
        there = torch.arange(sites, device=features.device) < counts[:, None]
        return torch.einsum("bs,bsd->bd", self.weights(counts, sites), torch.where(there[..., None], ranked, 0))

    def weights(self, counts: Int64[Tensor, " b"], sites: int) -> Float[Tensor, "b s"]:
        """θ of items with these numbers of sites, at most `sites`; 0 beyond an item's own number."""
        codes = encodings(sites, self.encoding, counts.device).to(self.score.weight.dtype)
        steps = torch.arange(sites, device=counts.device)
        # The position that the backward GRU reads at step k, which is also the step at which it reads position k.
        backward = (counts[:, None] - 1 - steps).clamp_min(0)
        ahead, _ = self.ahead(codes[None])
        back, _ = self.back(codes[backward])
        aligned = back.gather(1, backward[..., None].expand_as(back))
        logits = self.score((ahead + aligned) / 2).squeeze(-1) / TEMPERATURE
        return torch.softmax(logits.masked_fill(steps >= counts[:, None], -torch.inf), 1)


def encodings(count: int, width: int, device: torch.device) -> Float[Tensor, "n e"]:
    """Sines and cosines of the positions from 0, in turn, at rates 10000^(−2i/width). Vaswani et al. 2017.

    >>> encodings(2, 4, torch.device("cpu")).round(decimals=2)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8400, 0.5400, 0.0100, 1.0000]])
    """
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000) / width))
    angles = torch.arange(count, device=device)[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)
