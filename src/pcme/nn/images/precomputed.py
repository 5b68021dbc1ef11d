"""Precomputed: no network at all, for features that come from a file or a cache."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from pcme.errors import ShapeError
from pcme.nn.backbone import Build, Given, ImageBackbone, ImageNetwork, image_backbones


class PrecomputedNetwork(ImageNetwork):
    """The identity on features of one width; it has nothing to train."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    def forward(self, pixels: Float[Tensor, "b s d"]) -> Float[Tensor, "b s d"]:
        """The features themselves, given instead of pixels."""
        if pixels.ndim != 3 or pixels.shape[-1] != self.features:
            raise ShapeError(
                f"precomputed features must have shape [b, s, {self.features}], got {list(pixels.shape)}. "
                "Set image.features to the width they were stored with."
            )
        return pixels

    def blocks(self) -> Sequence[nn.Module]:
        """No parts."""
        return ()


@image_backbones.register("precomputed")
@dataclass(frozen=True)
class Precomputed(Given, ImageBackbone):
    """The features are given, `features` numbers per site, and pass through unchanged."""

    def build(self, context: Build) -> PrecomputedNetwork:
        """The identity; nothing is drawn."""
        return PrecomputedNetwork(self.features)
