"""Local attention: a weighted sum of an item's sites, with weights computed from the sites.

Under autocast the weights come from products in 16 bits, nearly all of the work; the weighted sum is in single
precision. Paper: §3.2.1, Fig. 3 (a); Lin et al. 2017, as used by PVSE.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn


def single_precision(like: Shaped[Tensor, "..."]) -> AbstractContextManager[object]:
    """A `with` block that autocast leaves alone, on the device of a tensor."""
    device = like.device.type
    available = torch.amp.is_autocast_available(device)  # the meta device has none
    return torch.autocast(device, enabled=False) if available else nullcontext()


class SeveralAttentions(nn.Module):
    """K local attentions with a common first map: K views of the same sites.

    Per view: softmax over sites of w₂·tanh(W₁ x), then the weighted sum of the raw sites. Both maps have no bias and
    Xavier-uniform weights; `hidden` is half the features by default. Lin et al. 2017; Song & Soleymani 2019 (PVSE).

    >>> views = SeveralAttentions(8, 3, generator=torch.Generator().manual_seed(0))
    >>> views(torch.ones(2, 5, 8), None).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, features: int, count: int, *, generator: torch.Generator, hidden: int | None = None) -> None:
        super().__init__()
        width = hidden or max(1, features // 2)
        self.inner = nn.Linear(features, width, bias=False)
        self.outer = nn.Linear(width, count, bias=False)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight, generator=generator)

    def _logits(self, sites: Float[Tensor, "b s d"], mask: Bool[Tensor, "b s"] | None) -> Float[Tensor, "b s k"]:
        logits: Tensor = self.outer(torch.tanh(self.inner(sites))).to(sites.dtype)
        return logits if mask is None else logits.masked_fill(~mask[:, :, None], -torch.inf)

    def forward(self, sites: Float[Tensor, "b s d"], mask: Bool[Tensor, "b s"] | None) -> Float[Tensor, "b k d"]:
        """The attended sites, K times."""
        logits = self._logits(sites, mask)
        with single_precision(sites):
            return torch.softmax(logits, 1).transpose(1, 2) @ sites


class LocalAttention(SeveralAttentions):
    """One local attention. Paper: §3.2.1, Fig. 3 (a)."""

    def __init__(self, features: int, *, generator: torch.Generator, hidden: int | None = None) -> None:
        super().__init__(features, 1, generator=generator, hidden=hidden)

    def forward(self, sites: Float[Tensor, "b s d"], mask: Bool[Tensor, "b s"] | None) -> Float[Tensor, "b d"]:
        """The attended sites."""
        weights = torch.softmax(self._logits(sites, mask).squeeze(-1), -1)
        with single_precision(sites):
            return torch.einsum("bs,bsd->bd", weights, sites)
