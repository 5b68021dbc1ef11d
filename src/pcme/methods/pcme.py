"""PCME and its relatives: soft contrastive likelihood of every pair, with learned a and b.

    match = Σ_ij w_ij · nll_ij / B
    total = match + Σ weight · term      terms: kl, uniformity (the paper's), fit, breadth (ours)

nll_ij is −log p for a match and −log(1 − p) otherwise, over all pairs of the batch, once (the i2t
and t2i losses are the same number). Dividing by B makes it the loss of an item: with that, weights
and learning rates do not depend on the batch. `objective` says what p is: the paper's mean over J²
samples, its limit for J → ∞, or the overlap of the two densities.

Paper: Eq. (1)-(3), §3.2, §A.1, §C.2.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError
from pcme.methods.base import (
    Method,
    Objective,
    Terms,
    registry,
    require_known,
    require_not_negative,
)
from pcme.methods.likelihood import energy_nll, overlap_energy, pair_nll
from pcme.methods.regularisers import (
    breadth,
    effective_matches,
    kl_to_standard_normal,
    spread_fit,
    uniformity,
)
from pcme.nn.heads import Covariance, HeadOptions
from pcme.scores import create
from pcme.scores.base import Score

__all__ = ["PCME", "Isotropic", "MeanOnly", "Overlap", "SoftContrastive", "positive_weights"]

Likelihood = Literal["sampled", "analytic", "overlap"]
Positives = Literal["diagonal", "matches", "matches-weighted"]


@dataclass(frozen=True)
class _SoftContrastiveMethod(Method):
    likelihood: Likelihood = "analytic"
    samples: int = 7
    scale: float = 10.0
    shift: float = 10.0
    positives: Positives = "matches"
    kl_weight: float = 0.0
    uniformity_weight: float = 0.0
    fit_weight: float = 0.0
    breadth_weight: float = 0.0
    covariance: Covariance = "diagonal"
    log_sigma: float = -3.5
    mean_attention: bool = True
    sigma_attention: bool = True
    sigma_squashed: bool = False
    attention_hidden: int | None = None

    def __post_init__(self) -> None:
        require_known("likelihood", self.likelihood, get_args(Likelihood))
        require_known("positives", self.positives, get_args(Positives))
        if self.scale <= 0 or self.samples < 1:
            raise ConfigError(
                f"scale must be above 0 and samples at least 1 - got {self.scale}, {self.samples}"
            )
        require_not_negative(
            kl_weight=self.kl_weight, uniformity_weight=self.uniformity_weight,
            fit_weight=self.fit_weight, breadth_weight=self.breadth_weight,
        )  # fmt: skip
        needs_sigma = self.likelihood == "overlap" or self.fit_weight or self.breadth_weight
        if self.covariance == "none" and needs_sigma:
            raise ConfigError(
                "overlap, fit and breadth need a sigma - use covariance diagonal or isotropic"
            )

    def heads(self, dim: int) -> HeadOptions:
        """The heads of Fig. 3, with the switches of §D."""
        return HeadOptions(
            dim,
            covariance=self.covariance,
            mean_attention=self.mean_attention,
            sigma_attention=self.sigma_attention,
            sigma_squashed=self.sigma_squashed,
            log_sigma=self.log_sigma,
            attention_hidden=self.attention_hidden,
        )

    def objective(self) -> "SoftContrastive":
        """The loss."""
        return SoftContrastive(self)


@registry.register("pcme")
@dataclass(frozen=True)
class PCME(_SoftContrastiveMethod):
    """PCME: match probability from the distance of samples, or its analytic limit.

    The paper's CUB settings; its β = 1e-3 at D = 512 is kl_weight 0.13 here, its λ = 10 at B = 150
    is uniformity_weight 0.03 (docs/science/errata.md).
    """

    kl_weight: float = 0.13
    uniformity_weight: float = 0.03


@registry.register("pcme-mu")
@dataclass(frozen=True)
class MeanOnly(_SoftContrastiveMethod):
    """PCME without σ: the paper's "μ only" row."""

    covariance: Covariance = "none"


@registry.register("pcme-isotropic")
@dataclass(frozen=True)
class Isotropic(_SoftContrastiveMethod):
    """PCME with one σ an item: the degrees-of-freedom ablation of §D."""

    covariance: Covariance = "isotropic"
    kl_weight: float = 0.13
    uniformity_weight: float = 0.03


@registry.register("pcme-overlap")
@dataclass(frozen=True)
class Overlap(_SoftContrastiveMethod):
    """Match probability from the overlap of the two densities: σ can mean ambiguity.

    logit = b − a/2D · Σ_d [ (μ₁−μ₂)² / (σ₁²+σ₂²) + log(σ₁²+σ₂²) ]. An item may be wide along what
    it does not say, which the paper's distance-based probability punishes. That it does become
    wide there is the work of the terms fit and breadth (docs/science/sigma.md).
    """

    likelihood: Likelihood = "overlap"
    scale: float = 10.0
    shift: float = -15.0
    uniformity_weight: float = 3.0
    fit_weight: float = 3.0
    breadth_weight: float = 2.0
    log_sigma: float = -2.4


class SoftContrastive(Objective):
    """The loss of this module's docstring; a and b are learned."""

    def __init__(self, method: _SoftContrastiveMethod) -> None:
        super().__init__()
        self.method = method
        self.scale = nn.Parameter(torch.tensor(float(method.scale)))
        self.shift = nn.Parameter(torch.tensor(float(method.shift)))
        self.breadth = nn.Parameter(torch.full((2,), -2.0)) if method.breadth_weight else None

    def forward(
        self,
        images: Embedding,
        captions: Embedding,
        matches: Bool[Tensor, "b b"],
        generator: torch.Generator,
    ) -> Terms:
        """The terms match, kl and uniformity."""
        method = self.method
        target, weights = positive_weights(matches, method.positives)
        values: dict[str, Float[Tensor, ""]] = {}
        nll = self._nll(images, captions, target, generator, values)
        values["match"] = (weights * nll).sum() / len(matches)
        if isinstance(images, Gaussian) and isinstance(captions, Gaussian):
            values["kl"] = kl_to_standard_normal(images) + kl_to_standard_normal(captions)
            if self.breadth is not None:
                values["breadth"] = self._breadth(images, captions, nll.detach(), target)
        means = [items.points().flatten(0, 1) for items in (images, captions)]
        values["uniformity"] = uniformity(torch.cat(means))
        return Terms(
            values,
            {
                "kl": method.kl_weight,
                "uniformity": method.uniformity_weight,
                "fit": method.fit_weight,
                "breadth": method.breadth_weight,
            },
        )

    def _nll(
        self,
        images: Embedding,
        captions: Embedding,
        target: Bool[Tensor, "b b"],
        generator: torch.Generator,
        values: dict[str, Float[Tensor, ""]],
    ) -> Float[Tensor, "b b"]:
        """The loss of every pair; where energies are needed, they also give the term `fit`."""
        method = self.method
        if method.likelihood == "overlap" or method.fit_weight:
            assert isinstance(images, Gaussian), "the method has made sure of it"
            assert isinstance(captions, Gaussian), "the method has made sure of it"
            energy = overlap_energy(images, captions)
            values["fit"] = spread_fit(energy, target)
            if method.likelihood == "overlap":
                return energy_nll(energy, target, self.scale, self.shift)
        return pair_nll(
            images,
            captions,
            target,
            scale=self.scale,
            shift=self.shift,
            # without sigma there is nothing to integrate over: one point an item
            method="sampled" if method.covariance == "none" else method.likelihood,
            samples=method.samples,
            generator=generator,
        )

    def _breadth(
        self,
        images: Gaussian,
        captions: Gaussian,
        nll: Float[Tensor, "b b"],
        target: Bool[Tensor, "b b"],
    ) -> Float[Tensor, ""]:
        """The term `breadth` of both sides; what an item could be is the model's own belief."""
        assert self.breadth is not None, "checked by the caller"
        right = (-nll).exp()
        p = torch.where(target, right, 1 - right)
        sides = ((images, p, self.breadth[0]), (captions, p.T, self.breadth[1]))
        parts = [
            breadth(
                items,
                effective_matches(rows) / rows.shape[1],
                centre=self.method.log_sigma,
                offset=offset,
            )
            for items, rows, offset in sides
        ]
        return torch.stack(parts).sum()

    def score(self) -> Score:
        """The log match probability with the learned a and b."""
        scale, shift = self.scale.item(), self.shift.item()
        if self.method.covariance == "none":  # points are taken as they are, nothing is sampled
            return create("match_prob", scale=scale, shift=shift, method="sampled")
        if self.method.likelihood == "overlap":
            return create("overlap", scale=scale, shift=shift)
        return create("match_prob", scale=scale, shift=shift)

    def report(self) -> dict[str, float]:
        """a and b."""
        return {"scale": self.scale.item(), "shift": self.shift.item()}


def positive_weights(
    matches: Bool[Tensor, "b b"], positives: Positives
) -> tuple[Bool[Tensor, "b b"], Float[Tensor, "b b"]]:
    """(which pairs count as matches, the weight of every pair).

    `diagonal`: each pair with itself, as in the authors' code. `matches`: all true matches.
    `matches-weighted`: all true matches, those of one caption sharing the weight of one; a negative
    weighs one throughout.

    >>> positive_weights(torch.tensor([[True, True], [False, True]]), "matches-weighted")[1]
    tensor([[1.0000, 0.5000],
            [1.0000, 0.5000]])
    """
    ones = torch.ones(matches.shape, device=matches.device)
    if positives == "diagonal":
        return torch.eye(len(matches), dtype=torch.bool, device=matches.device), ones
    if positives == "matches":
        return matches, ones
    counts = matches.sum(0, keepdim=True).clamp_min(1)
    return matches, torch.where(matches, 1 / counts, ones)
