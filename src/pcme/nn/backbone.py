"""ImageBackbone: what turns pixels into a grid of features, and how it is chosen by name.

A backbone is one class in one file of `pcme/nn/images/`: a frozen dataclass whose fields are its
parameters and whose `build` makes the network. It states its own normalisation.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcme.registry import Registry

__all__ = ["ImageBackbone", "ImageNetwork", "image_backbones"]


class ImageNetwork(nn.Module, ABC):
    """A network from normalised pixels to features at sites: a row of the grid after the other.

    `features` is d; `mean` and `std` are those of the colours, from 0 to 1, that it was made for.
    """

    features: int
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)

    @abstractmethod
    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b s d"]:
        """The features of every site, for pictures of any size the network can halve."""

    @abstractmethod
    def blocks(self) -> Sequence[nn.Module]:
        """The network's parts from input to output; "the top two" are the last two of them."""


@dataclass(frozen=True)
class ImageBackbone(ABC):
    """A backbone as a user names it."""

    @abstractmethod
    def build(self, generator: torch.Generator) -> ImageNetwork:
        """The network; weights that are not loaded from a file are drawn from the generator."""


image_backbones: Registry[ImageBackbone] = Registry("image backbone")
