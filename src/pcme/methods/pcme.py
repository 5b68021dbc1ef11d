"""PCME and its relatives: soft contrastive likelihood of every pair, with learned a and b.

    match = Σ_ij w_ij · nll_ij / B
    total = match + Σ weight · term      terms: kl, uniformity (the paper's), fit, breadth (ours)

nll_ij is −log p for a match and −log(1 − p) otherwise, over all pairs of the batch, once (the i2t and t2i losses are
equal). Divided by B it is the loss of an item, so that weights and learning rates do not depend on the batch.
`likelihood` chooses p: the paper's mean over J² samples, its limit for J → ∞, or the overlap of the two densities.

Paper: Eq. (1)-(3), §3.2, §A.1, §C.2.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pcme.core.checks import require, require_known
from pcme.embedding import Embedding, Gaussian
from pcme.methods import likelihood
from pcme.methods.base import GaussianMethod, Method, SigmoidObjective, Terms, registry, require_gaussians
from pcme.methods.pairs import PairLoss, Truth, positive_pairs
from pcme.methods.regularisers import (
    breadth,
    effective_matches,
    expected_uniformity,
    kl_to_standard_normal,
    spread_fit,
    uniformity,
    uniformity_sum,
)
from pcme.nn.heads import Covariance, HeadOptions
from pcme.scores import create
from pcme.scores.base import Score

Likelihood = Literal["sampled", "analytic", "overlap"]
WeightedPositives = Literal["diagonal", "matches", "matches-weighted"]
Uniformity = Literal["expected", "samples", "sum", "means"]
"""What §A.1 is applied to: the law of the samples, J samples (log of the mean, or the printed sum), or the means."""


@dataclass(frozen=True)
class _SoftContrastiveMethod(GaussianMethod):
    likelihood: Likelihood = "analytic"
    samples: int = 7
    scale: float = 10.0
    shift: float = 10.0
    positives: WeightedPositives = "matches"
    kl_weight: float = 0.0
    uniformity_weight: float = 0.0
    fit_weight: float = 0.0
    breadth_weight: float = 0.0
    sigma_squashed: bool = False
    uniformity: Uniformity = "means"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("likelihood", self.likelihood, get_args(Likelihood))
        require_known("positives", self.positives, get_args(WeightedPositives))
        require_known("uniformity", self.uniformity, get_args(Uniformity))
        require("scale", self.scale > 0, "above 0", self.scale)
        require("samples", self.samples >= 1, "at least 1", self.samples)
        if self.likelihood == "overlap" or self.fit_weight or self.breadth_weight:
            self._require_sigma()

    def heads(self, dim: int) -> HeadOptions:
        """The heads of Fig. 3, with one more switch of §D."""
        return replace(super().heads(dim), sigma_squashed=self.sigma_squashed)

    def objective(self) -> "SoftContrastive":
        """The loss."""
        return SoftContrastive(self)


@registry.register("pcme")
@dataclass(frozen=True)
class PCME(_SoftContrastiveMethod):
    """PCME: match probability from the distance of samples, or its analytic limit.

    The weights are those of the paper's CUB settings, rounded: β = 1e-3 at D = 512 is kl_weight 0.128 here, λ = 10 at
    B = 150 is uniformity_weight 0.0333 (docs/science/errata.md). For another D the same β is another kl_weight.
    """

    kl_weight: float = 0.13
    uniformity_weight: float = 0.03


@registry.register("pcme-authors")
@dataclass(frozen=True)
class AuthorsPCME(Method):
    """PCME with the authors' σ head, which has no bounds; for imported checkpoints."""

    likelihood: Literal["sampled", "analytic"] = "sampled"
    samples: int = 7
    scale: float = 10.0
    shift: float = 10.0

    def __post_init__(self) -> None:
        self.objective()  # refuses wrong values

    def heads(self, dim: int) -> HeadOptions:
        """The heads of Fig. 3; log σ starts at 0."""
        return HeadOptions(dim, log_sigma=0.0, bounds=None)

    def objective(self) -> "SoftContrastive":
        """The loss, with the weights of the paper's CUB settings."""
        return SoftContrastive(PCME(**asdict(self)))


@registry.register("pcme-mu")
@dataclass(frozen=True)
class MeanOnly(_SoftContrastiveMethod):
    """PCME without σ: the paper's "μ only" row, with the uniformity of `pcme`."""

    covariance: Covariance = "none"
    uniformity_weight: float = 0.03


@registry.register("pcme-isotropic")
@dataclass(frozen=True)
class Isotropic(_SoftContrastiveMethod):
    """PCME with one σ per item: the degrees-of-freedom ablation of §D."""

    covariance: Covariance = "isotropic"
    kl_weight: float = 0.13
    uniformity_weight: float = 0.03


@registry.register("pcme-overlap")
@dataclass(frozen=True)
class PCMEOverlap(_SoftContrastiveMethod):
    """Match probability from the overlap of the two densities: σ can mean ambiguity.

    logit = b − a/2D · Σ_d [ (μ₁−μ₂)² / (σ₁²+σ₂²) + log(σ₁²+σ₂²) ]. An item may be wide along what it does not say,
    which the paper's distance-based probability punishes; the terms fit and breadth widen it (docs/science/sigma.md).
    """

    likelihood: Likelihood = "overlap"
    scale: float = 10.0
    shift: float = -15.0
    uniformity_weight: float = 3.0
    fit_weight: float = 3.0
    breadth_weight: float = 2.0
    log_sigma: float = -2.4


class SoftContrastive(SigmoidObjective):
    """The loss of this module's docstring."""

    def __init__(self, method: _SoftContrastiveMethod) -> None:
        super().__init__(method.scale, method.shift)
        self.method = method
        self.breadth = nn.Parameter(torch.full((2,), -2.0)) if method.breadth_weight else None

    def forward(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> Terms:
        """The terms match, kl, uniformity, fit and breadth, as far as they have a weight."""
        method, (target, weights) = self.method, positive_weights(matches, self.method.positives)
        samples = self._samples(images, captions, generator)
        energy = _energy(images, captions) if method.likelihood == "overlap" or method.fit_weight else None
        compared = samples if method.likelihood == "sampled" else (images, captions)
        nll = self.pair_nll(*compared, target, generator, energy)
        terms: dict[str, Callable[[], Float[Tensor, ""]]] = {}
        if energy is not None:
            terms["fit"] = lambda: spread_fit(energy, target)
        terms["match"] = lambda: (weights * nll).sum() / len(matches)
        if isinstance(images, Gaussian) and isinstance(captions, Gaussian):
            terms["kl"] = lambda: kl_to_standard_normal(images) + kl_to_standard_normal(captions)
            if self.breadth is not None:
                terms["breadth"] = lambda: self._breadth(images, captions, nll.detach(), target)
        terms["uniformity"] = lambda: self._uniformity((images, captions), samples)
        return Terms.of(terms, **method.weights)

    def pair_nll(
        self,
        images: Embedding,
        captions: Embedding,
        matches: Truth,
        generator: torch.Generator,
        energy: Float[Tensor, "b c"] | None = None,
    ) -> PairLoss:
        """The loss of every pair, by the method's likelihood; `energy` is that of the overlap, if it is known."""
        if self.method.likelihood == "overlap":
            energy = _energy(images, captions) if energy is None else energy
            return likelihood.energy_nll(energy, matches, self.scale, self.shift)
        return likelihood.pair_nll(
            images,
            captions,
            matches,
            scale=self.scale,
            shift=self.shift,
            # Without sigma there is nothing to integrate over: one point per item.
            method="sampled" if self.method.covariance == "none" else self.method.likelihood,
            samples=self.method.samples,
            generator=generator,
        )

    def _samples(
        self, images: Embedding, captions: Embedding, generator: torch.Generator
    ) -> tuple[Embedding, Embedding]:
        """Both sides as points, drawn once for all terms that need samples; as they are where none does."""
        of_samples = self.method.uniformity_weight and self.method.uniformity in ("samples", "sum")
        if self.method.likelihood != "sampled" and not of_samples:
            return images, captions
        drawn = [s.sample(self.method.samples, generator) if isinstance(s, Gaussian) else s for s in (images, captions)]
        return drawn[0], drawn[1]

    def _uniformity(
        self, sides: tuple[Embedding, Embedding], samples: tuple[Embedding, Embedding]
    ) -> Float[Tensor, ""]:
        """§A.1 on the embeddings that are compared, or on the means alone."""
        kind = self.method.uniformity
        if kind == "expected" and all(isinstance(side, Gaussian) for side in sides):
            return expected_uniformity(Gaussian.cat([side for side in sides if isinstance(side, Gaussian)]))
        points = torch.cat([s.points().flatten(0, 1) for s in (samples if kind in ("samples", "sum") else sides)])
        return uniformity_sum(points) if kind == "sum" else uniformity(points)

    def _breadth(
        self, images: Gaussian, captions: Gaussian, nll: Float[Tensor, "b b"], target: Bool[Tensor, "b b"]
    ) -> Float[Tensor, ""]:
        """The term `breadth` of both sides; the matches of an item are those the model believes."""
        assert self.breadth is not None, "checked by the caller"
        right = (-nll).exp()
        p = torch.where(target, right, 1 - right)
        sides = (images, p, self.breadth[0]), (captions, p.T, self.breadth[1])
        parts = [
            breadth(items, effective_matches(rows) / rows.shape[1], centre=self.method.log_sigma, offset=offset)
            for items, rows, offset in sides
        ]
        return torch.stack(parts).sum()

    def score(self) -> Score:
        """The log match probability with the learned a and b."""
        if self.method.covariance == "none":  # points are taken as they are, nothing is sampled
            return create("match_prob", **self.learned(), method="sampled")
        overlap = self.method.likelihood == "overlap"
        return create("overlap" if overlap else "match_prob", **self.learned())


def _energy(images: Embedding, captions: Embedding) -> Float[Tensor, "b c"]:
    """The energies that the overlap's likelihood and the term fit share."""
    return likelihood.overlap_energy(*require_gaussians("overlap", images, captions))


def positive_weights(matches: Truth, positives: WeightedPositives) -> tuple[Truth, Float[Tensor, "b b"]]:
    """(which pairs count as matches, the weight of every pair).

    `diagonal`: each pair with itself, as in the authors' code. `matches`: all true matches. `matches-weighted`: all
    true matches, those of one caption sharing the weight of one; a negative weighs one throughout.

    >>> positive_weights(torch.tensor([[True, True], [False, True]]), "matches-weighted")[1]
    tensor([[1.0000, 0.5000],
            [1.0000, 0.5000]])
    """
    ones = torch.ones(matches.shape, device=matches.device)
    if positives != "matches-weighted":
        return positive_pairs(matches, positives), ones
    counts = matches.sum(0, keepdim=True).clamp_min(1)
    return matches, torch.where(matches, 1 / counts, ones)
