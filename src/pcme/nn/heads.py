"""Heads: from an item's features to the mean and the log σ of its Gaussian.

mean = L2(LN(base + sigmoid(fc(attention))))       log σ = base + fc(attention), nothing squashed

`base` is a projection of the pooled features (images) or the sentence vector (captions). With K
points an item, there are K attentions and no log σ: the heads of PVSE.

Paper: §3.2.1, Fig. 3 (b, c); §D for the switches.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.embedding import Points
from pcme.errors import ConfigError
from pcme.nn.attention import LocalAttention, SeveralAttentions, single_precision
from pcme.nn.backbone import Features

__all__ = [
    "Features",
    "GivenMean",
    "HeadOptions",
    "MeanHead",
    "PointsHead",
    "SeveralPoints",
    "SigmaHead",
    "linear",
    "softly_bounded",
]

Covariance = Literal["diagonal", "isotropic", "none"]


@dataclass(frozen=True)
class HeadOptions:
    """The switches of §D, and where log σ starts.

    Differs: the authors' log σ starts at about 0, so that the first distances are dominated by
    noise; here it starts at `log_sigma` and is softly kept within `bounds`.
    """

    dim: int
    covariance: Covariance = "diagonal"
    mean_attention: bool = True
    sigma_attention: bool = True
    sigma_squashed: bool = False
    log_sigma: float = -3.5
    bounds: tuple[float, float] = (-8.0, 2.0)
    attention_hidden: int | None = None
    points: int = 1
    """How many embeddings an item has: K of PVSE."""
    means_given: bool = False
    """The mean is the item's own vector, and nothing but σ is learned of it (`GivenMean`)."""

    def __post_init__(self) -> None:
        low, high = self.bounds
        if self.covariance not in ("diagonal", "isotropic", "none"):
            raise ConfigError(
                f'covariance must be diagonal, isotropic or none - got "{self.covariance}"'
            )
        if not low < self.log_sigma < high:
            raise ConfigError(f"log_sigma must lie within {self.bounds} - got {self.log_sigma}")
        if self.dim < 1 or self.points < 1:
            raise ConfigError(
                f"dim and points must be at least 1 - got {self.dim} and {self.points}"
            )
        if self.points > 1 and (self.covariance != "none" or not self.mean_attention):
            raise ConfigError(
                f"{self.points} points an item come from as many attentions and have no sigma - "
                'set covariance to "none" and mean_attention to true'
            )


class MeanHead(nn.Module):
    """L2(LN(base + sigmoid(fc(attention)))): a unit vector. Paper: §3.2.1, Fig. 3 (b).

    Without attention: L2(LN(base)), the ablation of §D.
    """

    def __init__(
        self,
        local: int,
        pooled: int,
        options: HeadOptions,
        *,
        project: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        dim = options.dim
        self.base = linear(pooled, dim, generator) if project else nn.Identity()
        self.attention = (
            LocalAttention(local, generator=generator, hidden=options.attention_hidden)
            if options.mean_attention
            else None
        )
        self.fc = linear(local, dim, generator) if options.mean_attention else None
        self.norm = nn.LayerNorm(dim)

    def forward(
        self,
        local: Float[Tensor, "b s d"],
        pooled: Float[Tensor, "b p"],
        mask: Bool[Tensor, "b s"] | None,
    ) -> Float[Tensor, "b dim"]:
        """The means, of length one."""
        attended = None if self.attention is None else self.attention(local, mask)
        with single_precision(pooled):
            base = self.base(pooled)
            if attended is not None and self.fc is not None:
                base = base + torch.sigmoid(self.fc(attended))
            return F.normalize(self.norm(base), dim=-1)


class GivenMean(nn.Module):
    """L2(L2(vector) − centre): the item's own vector, where two backbones agree by themselves.

    For CLIP and its like, whose cosines rank already, and which heads that start from nothing would
    have to learn again. `centre` is the mean of the side's vectors in training: the two sides lie
    apart as wholes, so that without it all distances are nearly the same, and the probability of a
    match has nothing to go by. Nothing here is learned.
    """

    centre: Tensor
    seen: Tensor

    def __init__(self, pooled: int, options: HeadOptions) -> None:
        super().__init__()
        if pooled != options.dim or options.points > 1:
            raise ConfigError(
                f'means="given" takes the vectors of an image and of a caption as they are, one '
                f"each - got {pooled} numbers for dim={options.dim} and {options.points} points "
                f'- set dim={pooled} for both sides, or means="learned"'
            )
        self.register_buffer("centre", torch.zeros(options.dim))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(
        self,
        local: Float[Tensor, "b s d"],
        pooled: Float[Tensor, "b p"],
        mask: Bool[Tensor, "b s"] | None,
    ) -> Float[Tensor, "b dim"]:
        """The means, of length one; in training, the vectors count for the centre."""
        with single_precision(pooled):
            unit = F.normalize(pooled, dim=-1)
            if self.training:
                self._count(unit.detach())
            return F.normalize(unit - self.centre, dim=-1)

    def _count(self, unit: Float[Tensor, "b dim"]) -> None:
        self.seen += len(unit)
        self.centre += (unit.mean(0) - self.centre) * (len(unit) / self.seen)


@dataclass(frozen=True, eq=False)
class SeveralPoints(Points):
    """K points an item and the residuals in them, which PVSE's diversity term is about."""

    residuals: Float[Tensor, "n k d"]


class PointsHead(nn.Module):
    """K times L2(LN(base + sigmoid(fc(attention_k)))): K unit vectors an item.

    Song & Soleymani 2019 (PVSE), PIE-Net; `fc` and the LN are common to all. Relation: for K = 1 it
    is `MeanHead`.
    """

    def __init__(
        self,
        local: int,
        pooled: int,
        options: HeadOptions,
        *,
        project: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        dim = options.dim
        self.base = linear(pooled, dim, generator) if project else nn.Identity()
        self.attention = SeveralAttentions(
            local, options.points, generator=generator, hidden=options.attention_hidden
        )
        self.fc = linear(local, dim, generator)
        self.norm = nn.LayerNorm(dim)

    def forward(
        self,
        local: Float[Tensor, "b s d"],
        pooled: Float[Tensor, "b p"],
        mask: Bool[Tensor, "b s"] | None,
    ) -> SeveralPoints:
        """The points, of length one, and their residuals."""
        attended = self.attention(local, mask)
        with single_precision(pooled):
            residuals = torch.sigmoid(self.fc(attended))
            points = self.norm(self.base(pooled)[:, None] + residuals)
            return SeveralPoints(F.normalize(points, dim=-1), residuals)


class SigmaHead(nn.Module):
    """base + fc(attention), without sigmoid, LN or L2. Paper: §3.2.1, Fig. 3 (c).

    `sigma_squashed` adds the sigmoid and the LN, the ablation of §D; an isotropic one has a single
    output for all dimensions.
    """

    def __init__(
        self,
        local: int,
        spread: int,
        options: HeadOptions,
        *,
        project: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        isotropic = options.covariance == "isotropic"
        out = 1 if isotropic else options.dim
        self.base = linear(spread, out, generator) if project or isotropic else nn.Identity()
        self.attention = (
            LocalAttention(local, generator=generator, hidden=options.attention_hidden)
            if options.sigma_attention
            else None
        )
        self.fc = linear(local, out, generator) if options.sigma_attention else None
        self.norm = nn.LayerNorm(out) if options.sigma_squashed and out > 1 else None
        self.squashed = options.sigma_squashed
        self.bounds = options.bounds
        self.offset = nn.Parameter(torch.full((out,), options.log_sigma))

    def forward(
        self,
        local: Float[Tensor, "b s d"],
        spread: Float[Tensor, "b q"],
        mask: Bool[Tensor, "b s"] | None,
    ) -> Float[Tensor, "b out"]:
        """log σ, softly within the bounds."""
        attended = None if self.attention is None else self.attention(local, mask)
        with single_precision(spread):
            value = self.base(spread)
            if attended is not None and self.fc is not None:
                seen = self.fc(attended)
                value = value + (torch.sigmoid(seen) if self.squashed else seen)
            if self.norm is not None:
                value = self.norm(value)
            return softly_bounded(value + self.offset, *self.bounds)


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear map with Xavier-uniform weights and no offset at the start."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def softly_bounded(x: Float[Tensor, "*n"], low: float, high: float) -> Float[Tensor, "*n"]:
    """x where it is well inside (low, high), approaching the bounds smoothly outside.

    >>> softly_bounded(torch.tensor([-100.0, -3.0, 100.0]), -8.0, 2.0).round(decimals=2)
    tensor([-8., -3.,  2.])
    """
    return high - F.softplus(high - low - F.softplus(x - low))
