"""Towers: a backbone and its heads; one for images, one for captions.

Paper: Fig. 2. A tower gives a `Gaussian`, or `Points` (one or K points per item) without σ.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from pcme.embedding import Embedding, Gaussian, Points
from pcme.nn.backbone import CaptionNetwork, Features, ImageNetwork
from pcme.nn.captioner import WordPoints
from pcme.nn.heads import GivenMean, HeadOptions, HeadSizes, MeanHead, PointsHead, SigmaHead
from pcme.nn.reasoning import RegionHead


class Heads(nn.Module):
    """The mean head and, unless the covariance is "none", the σ head."""

    def __init__(self, sizes: HeadSizes, options: HeadOptions, generator: torch.Generator) -> None:
        super().__init__()
        self.mean = _mean_head(sizes, options, generator)
        self.sigma = None if options.covariance == "none" else SigmaHead(sizes, options, generator)
        self.captioned = options.captioned

    def forward(self, features: Features) -> Embedding:
        """The embeddings of a batch."""
        mean = self.mean(features.local, features.pooled, features.mask)
        if isinstance(mean, Points):
            return mean
        if self.sigma is not None:
            return Gaussian(mean, self.sigma(features.local, features.spread, features.mask))
        words = features.words if self.captioned and self.training else None
        return Points(mean[:, None]) if words is None else WordPoints(mean[:, None], words.ids, words.lengths)


def _mean_head(sizes: HeadSizes, options: HeadOptions, generator: torch.Generator) -> nn.Module:
    if options.means_given:
        return GivenMean(sizes.pooled, options)
    if options.reasoning:
        return RegionHead(sizes, options, generator)
    return (PointsHead if options.points > 1 else MeanHead)(sizes, options, generator)


class ImageTower(nn.Module):
    """From normalised pixels, or features computed before, to embeddings."""

    def __init__(self, network: ImageNetwork, options: HeadOptions, *, generator: torch.Generator) -> None:
        super().__init__()
        self.network = network
        self.heads = Heads(HeadSizes(network.features, network.features), options, generator)

    def forward(self, images: Float[Tensor, "b ..."]) -> Embedding:
        """The embeddings of pixels [b,3,h,w] or of features [b,s,d]."""
        sites = self.network(images) if images.ndim == 4 else images
        pooled = sites.mean(1)
        return self.heads(Features(sites, pooled, pooled))  # type: ignore[no-any-return]


class CaptionTower(nn.Module):
    """From captions, as ids or as vectors, to embeddings; a sentence vector is not pooled again, nor reasoned over."""

    def __init__(self, words: CaptionNetwork, options: HeadOptions, *, generator: torch.Generator) -> None:
        super().__init__()
        self.words = words
        own = replace(options, reasoning=0, pooling=options.pooling if words.averages else "mean")
        self.heads = Heads(HeadSizes(words.features, words.pooled, not words.projected), own, generator)

    def forward(self, inputs: Shaped[Tensor, "b ..."], lengths: Int64[Tensor, "b ..."] | None = None) -> Embedding:
        """The embeddings of a batch of captions."""
        return self.heads(self.words(inputs, lengths))  # type: ignore[no-any-return]
