"""Towers: a backbone and its heads; one for images, one for captions.

Paper: Fig. 2. A tower gives a `Gaussian`, or `Points` (one or K points an item) without σ.
"""

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from pcme.embedding import Embedding, Gaussian, Points
from pcme.nn.backbone import CaptionNetwork, Features, ImageNetwork
from pcme.nn.heads import GivenMean, HeadOptions, MeanHead, PointsHead, SigmaHead

__all__ = ["CaptionTower", "Heads", "ImageTower"]


class Heads(nn.Module):
    """The mean head and, unless the covariance is "none", the σ head.

    `project` maps the pooled features to the embedding's size; a sentence vector has it already.
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
        self.mean = _mean_head(local, pooled, options, project=project, generator=generator)
        self.sigma = (
            None
            if options.covariance == "none"
            else SigmaHead(local, pooled, options, project=project, generator=generator)
        )

    def forward(self, features: Features) -> Embedding:
        """The embeddings of a batch."""
        mean = self.mean(features.local, features.pooled, features.mask)
        if isinstance(mean, Points):
            return mean
        if self.sigma is None:
            return Points(mean[:, None])
        log_sigma = self.sigma(features.local, features.spread, features.mask)
        return Gaussian(mean, log_sigma)


def _mean_head(
    local: int, pooled: int, options: HeadOptions, *, project: bool, generator: torch.Generator
) -> nn.Module:
    if options.means_given:
        return GivenMean(pooled, options)
    kind = PointsHead if options.points > 1 else MeanHead
    return kind(local, pooled, options, project=project, generator=generator)


class ImageTower(nn.Module):
    """From normalised pixels, or features computed before, to embeddings."""

    def __init__(
        self, network: ImageNetwork, options: HeadOptions, *, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.network = network
        width = network.features
        self.heads = Heads(width, width, options, project=True, generator=generator)

    def forward(self, images: Float[Tensor, "b ..."]) -> Embedding:
        """The embeddings of pixels [b,3,h,w] or of features [b,s,d]."""
        sites = self.network(images) if images.ndim == 4 else images
        pooled = sites.mean(1)
        return self.heads(Features(sites, pooled, pooled))  # type: ignore[no-any-return]


class CaptionTower(nn.Module):
    """From captions, as ids or as vectors, to embeddings."""

    def __init__(
        self, words: CaptionNetwork, options: HeadOptions, *, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.words = words
        project = not words.projected
        self.heads = Heads(
            words.features, words.pooled, options, project=project, generator=generator
        )

    def forward(
        self, inputs: Shaped[Tensor, "b ..."], lengths: Int64[Tensor, " b"] | None = None
    ) -> Embedding:
        """The embeddings of a batch of captions."""
        return self.heads(self.words(inputs, lengths))  # type: ignore[no-any-return]
