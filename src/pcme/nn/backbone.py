"""Backbones: what turns pixels, or captions, into features, and how it is chosen by name.

A backbone is one class in one file of `pcme/nn/images/` or `pcme/nn/captions/`: a frozen dataclass
whose fields are its parameters and whose `build` makes the network.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor, nn

from pcme.core.registry import Registry
from pcme.data.text.tokens import Tokeniser

__all__ = [
    "CaptionBackbone",
    "CaptionNetwork",
    "Features",
    "ImageBackbone",
    "ImageNetwork",
    "caption_backbones",
    "image_backbones",
]


@dataclass(frozen=True)
class Features:
    """What a backbone says of a batch of items.

    `local` are the sites [b,s,d], `mask` says which of them are there; `pooled` [b,p] is the base
    of the mean and `spread` [b,q] the base of log σ (the same tensor for images).
    """

    local: Float[Tensor, "b s d"]
    pooled: Float[Tensor, "b p"]
    spread: Float[Tensor, "b q"]
    mask: Bool[Tensor, "b s"] | None = None


class ImageNetwork(nn.Module, ABC):
    """A network from normalised pixels to features at sites: a row of the grid after the other.

    `features` is d; `mean` and `std` are those of the colours, from 0 to 1, that it was made for.
    `chained` says that the network is its blocks one after the other, each a map [b,c,h,w] to the
    next: what the lower ones give can then be kept while the upper ones learn.
    """

    features: int
    chained: ClassVar[bool] = False
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)

    @abstractmethod
    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b s d"]:
        """The features of every site, for pictures of any size the network can halve."""

    @abstractmethod
    def blocks(self) -> Sequence[nn.Module]:
        """The network's parts from input to output; "the top two" are the last two of them."""

    def below(self, pixels: Float[Tensor, "b 3 h w"], top: int) -> Float[Tensor, "b c i j"]:
        """What the last `top` blocks of a chained network take."""
        x = pixels.contiguous(memory_format=torch.channels_last)  # faster on a CPU
        for block in self.blocks()[: self._cut(top)]:
            x = block(x)
        return x

    def above(self, maps: Float[Tensor, "b c i j"], top: int) -> Float[Tensor, "b s d"]:
        """What the last `top` blocks of a chained network make of that: features of every site."""
        x = maps.contiguous(memory_format=torch.channels_last)
        for block in self.blocks()[self._cut(top) :]:
            x = block(x)
        return x.flatten(2).transpose(1, 2)

    def _cut(self, top: int) -> int:
        return max(0, len(self.blocks()) - top)

    def save_files(self, folder: Path) -> None:
        """Write what the network is rebuilt from besides its weights; most need nothing."""


@dataclass(frozen=True)
class ImageBackbone(ABC):
    """A backbone as a user names it."""

    def bare(self) -> "ImageBackbone":
        """The same without weights from elsewhere: for a network whose weights are loaded next."""
        return self

    def stored(self, folder: Path) -> "ImageBackbone":
        """The bare one, rebuilt from what `save_files` wrote where the network wrote anything."""
        return self.bare()

    @abstractmethod
    def build(self, generator: torch.Generator) -> ImageNetwork:
        """The network; weights that are not loaded from a file are drawn from the generator."""


image_backbones: Registry[ImageBackbone] = Registry("image backbone", "pcme.nn.images")


class CaptionNetwork(nn.Module, ABC):
    """A network from captions, as ids or as vectors, to their features.

    `features` is the width of a site, `pooled` that of the vector of a whole caption. `projected`
    says that this vector has been brought to the embedding's size already, one for the mean and one
    for log σ; otherwise the heads do it.
    """

    features: int
    pooled: int
    projected: bool

    @abstractmethod
    def forward(
        self, inputs: Shaped[Tensor, "b ..."], lengths: Int64[Tensor, " b"] | None = None
    ) -> Features:
        """The features of captions, of which so many sites are there; without lengths, all are."""

    def word_vectors(self) -> Sequence[nn.Parameter]:
        """What a recipe with words.train = false holds still; none in a network without words."""
        return ()

    def held(self) -> Sequence[nn.Module]:
        """What no phase trains: weights from elsewhere that are to stay as they are."""
        return ()

    def tokeniser(self) -> Tokeniser | None:
        """What makes ids for this network; None for those that take the model's vocabulary."""
        return None

    def save_files(self, folder: Path) -> None:
        """Write what the network is rebuilt from besides its weights; most need nothing."""


@dataclass(frozen=True)
class CaptionBackbone(ABC):
    """A caption backbone as a user names it."""

    def stored(self, folder: Path) -> "CaptionBackbone":
        """The same without weights from elsewhere, rebuilt from what `save_files` wrote."""
        return self

    @abstractmethod
    def build(
        self,
        vectors: Float[Tensor, "v e"],
        *,
        dim: int,
        with_sigma: bool,
        generator: torch.Generator,
    ) -> CaptionNetwork:
        """The network for embeddings of size `dim`; it copies the word vectors if it uses any."""


caption_backbones: Registry[CaptionBackbone] = Registry("caption backbone", "pcme.nn.captions")
