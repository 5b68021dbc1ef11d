"""An image backbone in one file: mean colours of a grid, and a linear map of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from pcme.nn.backbone import Build, ImageBackbone, ImageNetwork, image_backbones
from pcme.nn.heads import linear


class GridNetwork(ImageNetwork):
    """Mean colours of a grid of 2 x 2 cells, through a linear map."""

    def __init__(self, features: int, generator: torch.Generator) -> None:
        super().__init__()
        self.features = features
        self.map = linear(3, features, generator)

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b s d"]:
        return self.map(adaptive_avg_pool2d(pixels, 2).flatten(2).transpose(1, 2))

    def blocks(self) -> Sequence[nn.Module]:
        return (self.map,)


@image_backbones.register("flock-grid")
@dataclass(frozen=True)
class Grid(ImageBackbone):
    """Mean colours of a grid of 2 x 2 cells, mapped to `features` numbers."""

    features: int = 8

    def build(self, context: Build) -> GridNetwork:
        return GridNetwork(self.features, context.generator)
