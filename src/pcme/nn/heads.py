"""Heads: from an item's features to the mean and the log σ of its Gaussian.

mean = L2(LN(base + sigmoid(fc(attention))))       log σ = base + fc(attention), nothing squashed

`base` is a projection of the pooled features (images) or the sentence vector (captions). With K points per item, there
are K attentions and no log σ: the heads of PVSE. Paper: §3.2.1, Fig. 3 (b, c); §D for the switches.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.core.checks import require, require_known
from pcme.embedding import Points
from pcme.errors import ConfigError
from pcme.nn.attention import LocalAttention, SeveralAttentions, single_precision
from pcme.nn.gpo import GPO

Sites = Float[Tensor, "b s d"]
Pooled = Float[Tensor, "b p"]
Mask = Bool[Tensor, "b s"] | None
Covariance = Literal["diagonal", "isotropic", "none"]
Pooling = Literal["mean", "gpo"]


@dataclass(frozen=True)
class HeadOptions:
    """The switches of §D, and where log σ starts.

    Differs: the authors' log σ starts at about 0, so that the first distances are dominated by noise; here it starts at
    `log_sigma` and is softly kept within `bounds`, unless these are None.
    """

    dim: int
    covariance: Covariance = "diagonal"
    mean_attention: bool = True
    sigma_attention: bool = True
    sigma_squashed: bool = False
    log_sigma: float = -3.5
    bounds: tuple[float, float] | None = (-8.0, 2.0)
    """The soft bounds of log σ; None leaves it free, as the paper does."""
    mean_norm: bool = True
    """A LayerNorm before the mean is brought to length one, as in Fig. 3 (b)."""
    mean_unit: bool = True
    """Whether the mean is brought to length one, as in Fig. 3 (b). In the plane of §C.3 that would be a circle."""
    attention_hidden: int | None = None
    points: int = 1
    """Embeddings per item: K of PVSE."""
    means_given: bool = False
    """The mean is the item's own vector, and σ alone is learned (`GivenMean`)."""
    pooling: Pooling = "mean"
    """How sites become the one vector of an item, where that is their mean: "gpo" learns to weight them (`GPO`)."""
    reasoning: int = 0
    """Layers of reasoning over the sites of an image as regions, instead of all that (`RegionHead`): VSRN."""
    captioned: bool = False
    """In training, an embedding carries what a captioner needs: an image its regions, a caption its words."""

    def __post_init__(self) -> None:
        low, high = self.bounds or (-math.inf, math.inf)
        require_known("covariance", self.covariance, get_args(Covariance))
        require_known("pooling", self.pooling, get_args(Pooling))
        require("log_sigma", low < self.log_sigma < high, f"within {(low, high)}", self.log_sigma)
        require("dim", self.dim >= 1, "at least 1", self.dim)
        require("points", self.points >= 1, "at least 1", self.points)
        require("reasoning", self.reasoning >= 0, "at least 0", self.reasoning)
        plain = self.mean_attention and self.mean_norm and self.mean_unit
        if self.points > 1 and (self.covariance != "none" or not plain):
            raise ConfigError(
                f"{self.points} points per item come from as many attentions, have a LayerNorm, length one and no "
                'sigma. Set covariance to "none", mean_attention, mean_norm and mean_unit to true.'
            )
        if self.reasoning and (self.covariance != "none" or self.points > 1 or self.means_given):
            raise ConfigError(
                "reasoning over regions makes one point per item, which is learned, got "
                f"covariance={self.covariance}, points={self.points}, means_given={self.means_given}. "
                'Set covariance to "none", points to 1 and means to "learned".'
            )


@dataclass(frozen=True)
class HeadSizes:
    """The widths of a head's inputs: of a site, and of the vector of a whole item.

    `project` maps that vector to the embedding's size; a sentence vector has it already.
    """

    local: int
    pooled: int
    project: bool = True


class _Head(nn.Module, ABC):
    """A base, and one attention or `several` with a linear map behind it.

    The base is a linear map of the item's vector, the vector itself, or the pooled linear map of the sites (GPO).
    """

    several = False

    def __init__(
        self, sizes: HeadSizes, options: HeadOptions, generator: torch.Generator, *, out: int, attends: bool
    ) -> None:
        super().__init__()
        local, hidden = sizes.local, options.attention_hidden
        pools = options.pooling == "gpo"
        projects = pools or sizes.project or out != options.dim
        self.base = linear(local if pools else sizes.pooled, out, generator) if projects else nn.Identity()
        self.pool = GPO(generator=generator) if pools else None
        self.attention: SeveralAttentions | None = None
        if attends and self.several:
            self.attention = SeveralAttentions(local, options.points, generator=generator, hidden=hidden)
        elif attends:
            self.attention = LocalAttention(local, generator=generator, hidden=hidden)
        self.fc = None if self.attention is None else linear(local, out, generator)

    def forward(self, local: Sites, pooled: Pooled, mask: Mask) -> Any:  # noqa: ANN401 - each its own
        """The head's formula, in single precision but for the attention."""
        attended = None if self.attention is None else self.attention(local, mask)
        with single_precision(pooled):
            base = self.base(pooled) if self.pool is None else self.pool(self.base(local), mask)
            return self._formula(base, None if self.fc is None else self.fc(attended))

    @abstractmethod
    def _formula(self, base: Float[Tensor, "b out"], seen: Float[Tensor, "b ... out"] | None) -> object:
        """The formula, from the base and what was attended to, if anything."""


class MeanHead(_Head):
    """L2(LN(base + sigmoid(fc(attention)))): a unit vector. Paper: §3.2.1, Fig. 3 (b).

    Without attention: L2(LN(base)), the ablation of §D. Without the LN too: L2(base), the head of VSE0 and VSE++
    (Faghri et al. 2018), a linear map of the pooled features and no more. Paper: §3.1.1, "the simplest case".
    Without length one it is that map itself: the projection of §C.3.
    """

    norm: nn.Module

    def __init__(self, sizes: HeadSizes, options: HeadOptions, generator: torch.Generator) -> None:
        super().__init__(sizes, options, generator, out=options.dim, attends=options.mean_attention)
        self.norm = nn.LayerNorm(options.dim) if options.mean_norm else nn.Identity()
        self.unit = options.mean_unit

    def _formula(self, base: Float[Tensor, "b dim"], seen: Float[Tensor, "b dim"] | None) -> Float[Tensor, "b dim"]:
        total = base if seen is None else base + torch.sigmoid(seen)
        mean: Tensor = self.norm(total)
        return F.normalize(mean, dim=-1) if self.unit else mean


class GivenMean(nn.Module):
    """L2(L2(vector) − centre): the item's own vector, where two backbones agree by themselves.

    For CLIP and its like, whose cosines rank already. `centre` is the mean of the side's vectors in training: the two
    sides lie apart as wholes, so that without it all distances are nearly the same. Nothing here is learned.
    """

    centre: Tensor
    seen: Tensor

    def __init__(self, pooled: int, options: HeadOptions) -> None:
        super().__init__()
        if pooled != options.dim or options.points > 1:
            raise ConfigError(
                f'means="given" takes one vector per item as it is, got {pooled} numbers for dim={options.dim} and '
                f'{options.points} points. Set dim={pooled} for both sides, or means="learned".'
            )
        self.register_buffer("centre", torch.zeros(options.dim))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, local: Sites, pooled: Pooled, mask: Mask) -> Float[Tensor, "b dim"]:
        """The means, of length one; in training, the vectors count for the centre."""
        with single_precision(pooled):
            unit = F.normalize(pooled, dim=-1)
            if self.training:
                self.seen += len(unit)
                self.centre += (unit.detach().mean(0) - self.centre) * (len(unit) / self.seen)
            return F.normalize(unit - self.centre, dim=-1)


@dataclass(frozen=True, eq=False)
class SeveralPoints(Points):
    """K points per item and the residuals in them, for PVSE's diversity term."""

    residuals: Float[Tensor, "n k d"]


class PointsHead(_Head):
    """K times L2(LN(base + sigmoid(fc(attention_k)))): K unit vectors per item.

    Song & Soleymani 2019 (PVSE), PIE-Net; `fc` and the LN are common to all. Relation: for K = 1 it is `MeanHead`.
    """

    several = True

    def __init__(self, sizes: HeadSizes, options: HeadOptions, generator: torch.Generator) -> None:
        super().__init__(sizes, options, generator, out=options.dim, attends=True)
        self.norm = nn.LayerNorm(options.dim)

    def _formula(self, base: Float[Tensor, "b dim"], seen: Float[Tensor, "b k dim"] | None) -> SeveralPoints:
        assert seen is not None, "it always attends"
        residuals = torch.sigmoid(seen)
        return SeveralPoints(F.normalize(self.norm(base[:, None] + residuals), dim=-1), residuals)


class SigmaHead(_Head):
    """base + fc(attention), softly within bounds if it has any, without sigmoid, LN or L2. Paper: §3.2.1, Fig. 3 (c).

    `sigma_squashed` adds the sigmoid and the LN, the ablation of §D; an isotropic σ is one output for all dimensions.
    """

    def __init__(self, sizes: HeadSizes, options: HeadOptions, generator: torch.Generator) -> None:
        out = 1 if options.covariance == "isotropic" else options.dim
        super().__init__(sizes, options, generator, out=out, attends=options.sigma_attention)
        self.norm = nn.LayerNorm(out) if options.sigma_squashed and out > 1 else None
        self.squashed, self.bounds = options.sigma_squashed, options.bounds
        self.offset = nn.Parameter(torch.full((out,), options.log_sigma))

    def _formula(self, base: Float[Tensor, "b out"], seen: Float[Tensor, "b out"] | None) -> Float[Tensor, "b out"]:
        if seen is not None:
            base = base + (torch.sigmoid(seen) if self.squashed else seen)
        value = base if self.norm is None else self.norm(base)
        free = value + self.offset
        return free if self.bounds is None else softly_bounded(free, *self.bounds)


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
