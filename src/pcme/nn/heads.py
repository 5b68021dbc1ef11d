"""Heads: from an item's features to the mean and the log σ of its Gaussian.

mean = L2(LN(base + sigmoid(fc(attention))))       log σ = base + fc(attention), nothing squashed

`base` is a projection of the pooled features (images) or the sentence vector (captions). With K
points per item, there are K attentions and no log σ: the heads of PVSE.

Paper: §3.2.1, Fig. 3 (b, c); §D for the switches.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.core.checks import require, require_known
from pcme.embedding import Points
from pcme.errors import ConfigError
from pcme.nn.attention import LocalAttention, SeveralAttentions, single_precision

Sites = Float[Tensor, "b s d"]
Pooled = Float[Tensor, "b p"]
Mask = Bool[Tensor, "b s"] | None
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
    """Embeddings per item: K of PVSE."""
    means_given: bool = False
    """The mean is the item's own vector, and σ alone is learned (`GivenMean`)."""

    def __post_init__(self) -> None:
        low, high = self.bounds
        require_known("covariance", self.covariance, get_args(Covariance))
        within = low < self.log_sigma < high
        require("log_sigma", within, f"within {self.bounds}", self.log_sigma)
        require("dim", self.dim >= 1, "at least 1", self.dim)
        require("points", self.points >= 1, "at least 1", self.points)
        if self.points > 1 and (self.covariance != "none" or not self.mean_attention):
            raise ConfigError(
                f"{self.points} points per item come from as many attentions and have no sigma. "
                'Set covariance to "none" and mean_attention to true.'
            )


@dataclass(frozen=True)
class HeadSizes:
    """The widths of a head's inputs: of a site, and of the vector of a whole item.

    `project` maps that vector to the embedding's size; a sentence vector has it already.
    """

    local: int
    pooled: int
    project: bool = True


class _Head(nn.Module):
    """A base, and an attention with a linear map behind it; `points` of them, if that is given."""

    def __init__(
        self,
        sizes: HeadSizes,
        options: HeadOptions,
        generator: torch.Generator,
        *,
        out: int,
        attends: bool = True,
        points: int | None = None,
    ) -> None:
        super().__init__()
        local, hidden = sizes.local, options.attention_hidden
        projects = sizes.project or out != options.dim
        self.base = linear(sizes.pooled, out, generator) if projects else nn.Identity()
        self.attention: SeveralAttentions | None = None
        if points is not None:
            self.attention = SeveralAttentions(local, points, generator=generator, hidden=hidden)
        elif attends:
            self.attention = LocalAttention(local, generator=generator, hidden=hidden)
        self.fc = linear(local, out, generator) if attends else None


class MeanHead(_Head):
    """L2(LN(base + sigmoid(fc(attention)))): a unit vector. Paper: §3.2.1, Fig. 3 (b).

    Without attention: L2(LN(base)), the ablation of §D.
    """

    def __init__(self, sizes: HeadSizes, options: HeadOptions, generator: torch.Generator) -> None:
        super().__init__(sizes, options, generator, out=options.dim, attends=options.mean_attention)
        self.norm = nn.LayerNorm(options.dim)

    def forward(self, local: Sites, pooled: Pooled, mask: Mask) -> Float[Tensor, "b dim"]:
        """The means, of length one."""
        attended = None if self.attention is None else self.attention(local, mask)
        with single_precision(pooled):
            base = self.base(pooled)
            if attended is not None and self.fc is not None:
                base = base + torch.sigmoid(self.fc(attended))
            return F.normalize(self.norm(base), dim=-1)


class GivenMean(nn.Module):
    """L2(L2(vector) − centre): the item's own vector, where two backbones agree by themselves.

    For CLIP and its like, whose cosines rank already; heads that start from nothing would have to learn that again.
    `centre` is the mean of the side's vectors in training: the two sides lie apart as wholes, so that without it all
    distances are nearly the same, and the probability of a match has nothing to go by. Nothing here is learned.
    """

    centre: Tensor
    seen: Tensor

    def __init__(self, pooled: int, options: HeadOptions) -> None:
        super().__init__()
        if pooled != options.dim or options.points > 1:
            raise ConfigError(
                f'means="given" takes the vectors of an image and of a caption as they are, one '
                f"each, got {pooled} numbers for dim={options.dim} and {options.points} points. "
                f'Set dim={pooled} for both sides, or means="learned".'
            )
        self.register_buffer("centre", torch.zeros(options.dim))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, local: Sites, pooled: Pooled, mask: Mask) -> Float[Tensor, "b dim"]:
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
    """K points per item and the residuals in them, for PVSE's diversity term."""

    residuals: Float[Tensor, "n k d"]


class PointsHead(_Head):
    """K times L2(LN(base + sigmoid(fc(attention_k)))): K unit vectors per item.

    Song & Soleymani 2019 (PVSE), PIE-Net; `fc` and the LN are common to all. Relation: for K = 1 it is `MeanHead`.
    """

    attention: SeveralAttentions
    fc: nn.Linear

    def __init__(self, sizes: HeadSizes, options: HeadOptions, generator: torch.Generator) -> None:
        super().__init__(sizes, options, generator, out=options.dim, points=options.points)
        self.norm = nn.LayerNorm(options.dim)

    def forward(self, local: Sites, pooled: Pooled, mask: Mask) -> SeveralPoints:
        """The points, of length one, and their residuals."""
        attended = self.attention(local, mask)
        with single_precision(pooled):
            residuals = torch.sigmoid(self.fc(attended))
            points = self.norm(self.base(pooled)[:, None] + residuals)
            return SeveralPoints(F.normalize(points, dim=-1), residuals)


class SigmaHead(_Head):
    """base + fc(attention), without sigmoid, LN or L2. Paper: §3.2.1, Fig. 3 (c).

    `sigma_squashed` adds the sigmoid and the LN, the ablation of §D; an isotropic one has a single
    output for all dimensions.
    """

    def __init__(self, sizes: HeadSizes, options: HeadOptions, generator: torch.Generator) -> None:
        out = 1 if options.covariance == "isotropic" else options.dim
        super().__init__(sizes, options, generator, out=out, attends=options.sigma_attention)
        self.norm = nn.LayerNorm(out) if options.sigma_squashed and out > 1 else None
        self.squashed, self.bounds = options.sigma_squashed, options.bounds
        self.offset = nn.Parameter(torch.full((out,), options.log_sigma))

    def forward(self, local: Sites, spread: Pooled, mask: Mask) -> Float[Tensor, "b out"]:
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
