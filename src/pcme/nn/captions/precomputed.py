"""Precomputed: captions given as vectors that another model computed (CLIP, a BERT), one each or one per token."""

from dataclasses import dataclass

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from pcme.errors import ShapeError
from pcme.nn.backbone import Build, CaptionBackbone, CaptionNetwork, Features, Given, caption_backbones, present


class PrecomputedCaptions(CaptionNetwork):
    """Vectors of one width pass through, with their mean over tokens; it has nothing to train."""

    projected, averages = False, True

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = self.pooled = features

    def forward(self, inputs: Shaped[Tensor, "b ..."], lengths: Int64[Tensor, " b"] | None = None) -> Features:
        """Vectors [b,d], or tokens [b,l,d] of which the first `lengths` are there."""
        sites = inputs[:, None] if inputs.ndim == 2 else inputs
        if sites.ndim != 3 or sites.shape[-1] != self.features or not sites.is_floating_point():
            raise ShapeError(
                f"precomputed captions must be numbers of shape [b, {self.features}] or [b, l, {self.features}], got "
                f"{inputs.dtype} {list(inputs.shape)}. Set caption.features to the width they were stored with."
            )
        if lengths is None:
            pooled = sites.mean(1)
            return Features(sites, pooled, pooled)
        shortest, longest = int(lengths.min()), int(lengths.max())
        if not 1 <= shortest <= longest <= sites.shape[1]:
            raise ShapeError(f"lengths must be from 1 to {sites.shape[1]}, all tokens, got {shortest} to {longest}.")
        mask = present(sites, lengths)
        # Not a product with the mask: padding may be anything, even NaN.
        there = torch.where(mask[..., None], sites, 0)
        pooled = there.sum(1) / lengths[:, None].to(sites.device)
        return Features(there, pooled, pooled, mask)


@caption_backbones.register("precomputed")
@dataclass(frozen=True)
class Precomputed(Given, CaptionBackbone):
    """Captions are given as vectors of `features` numbers, and pass through unchanged."""

    def build(self, context: Build) -> PrecomputedCaptions:
        """The identity; nothing is drawn, and there are no words."""
        return PrecomputedCaptions(self.features)
