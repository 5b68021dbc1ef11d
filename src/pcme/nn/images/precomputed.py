"""Precomputed: no network at all, for features that come from a file or a cache."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcme.errors import ConfigError, ShapeError
from pcme.nn.backbone import ImageBackbone, ImageNetwork, image_backbones

__all__ = ["Precomputed", "PrecomputedNetwork"]


class PrecomputedNetwork(ImageNetwork):
    """The identity on features of one width; it has nothing to train.

    >>> PrecomputedNetwork(3)(torch.ones(1, 2, 3)).shape
    torch.Size([1, 2, 3])
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    def forward(self, pixels: Float[Tensor, "b s d"]) -> Float[Tensor, "b s d"]:
        """The features themselves, which take the place of the pixels."""
        if pixels.ndim != 3 or pixels.shape[-1] != self.features:
            raise ShapeError(
                f"precomputed features must have shape [b, s, {self.features}] - got "
                f"{list(pixels.shape)} - set `features` to the width they were stored with"
            )
        return pixels

    def blocks(self) -> Sequence[nn.Module]:
        """No parts."""
        return ()


@image_backbones.register("precomputed")
@dataclass(frozen=True)
class Precomputed(ImageBackbone):
    """The features are given, `features` numbers a site, and pass through unchanged."""

    features: int

    def __post_init__(self) -> None:
        if self.features < 1:
            raise ConfigError(f"features must be at least 1 - got {self.features}")

    def build(self, generator: torch.Generator) -> PrecomputedNetwork:
        """The identity; nothing is drawn."""
        return PrecomputedNetwork(self.features)
