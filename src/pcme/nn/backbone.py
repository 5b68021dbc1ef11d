"""Backbones: networks from pixels, or captions, to features, chosen by name.

A backbone is one class in one file of `pcme/nn/images/` or `pcme/nn/captions/`: a frozen dataclass whose fields are its
parameters and whose `build` makes the network.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor, nn

from pcme.core.checks import require
from pcme.core.registry import Registry
from pcme.data.text.tokens import Tokeniser, Tokens, Vocab

N = TypeVar("N", bound=nn.Module)
States = Sequence[Float[Tensor, "b _ _"]]
"""Last hidden states of captions, one entry per text tower of a network; none where the towers run."""


@dataclass(frozen=True)
class Features:
    """The features of a batch of items.

    `mask` says which of the `local` sites are there; `pooled` is the base of the mean and `spread` that of log σ (the
    same tensor for images). `words` are the ids that a caption was given as.
    """

    local: Float[Tensor, "b s d"]
    pooled: Float[Tensor, "b p"]
    spread: Float[Tensor, "b q"]
    mask: Bool[Tensor, "b s"] | None = None
    words: Tokens | None = None

    def float(self) -> "Features":
        """The same in single precision."""
        return replace(self, local=self.local.float(), pooled=self.pooled.float(), spread=self.spread.float())


class _Network(nn.Module, ABC):
    def save_files(self, folder: Path) -> None:
        """Write what the network is rebuilt from besides its weights; most need nothing."""


class ImageNetwork(_Network, ABC):
    """A network from normalised pixels to features at sites, row by row of the grid.

    `features` is d; `mean` and `std` are those of the colours, from 0 to 1, that it was made for. The blocks of a
    `chained` network go from map [b,c,h,w] to map: those of the lower ones can be cached while the upper ones learn.
    """

    features: int
    chained: ClassVar[bool] = False
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b s d"]:
        """The features of every site, for images of any size the network can halve; here through all blocks."""
        return self.above(pixels, len(self.blocks()))

    @abstractmethod
    def blocks(self) -> Sequence[nn.Module]:
        """The network's parts from input to output; "the top two" are the last two of them."""

    def below(self, pixels: Float[Tensor, "b 3 h w"], top: int) -> Float[Tensor, "b c i j"]:
        """The maps that the last `top` blocks of a chained network take."""
        x = pixels.contiguous(memory_format=torch.channels_last)  # faster on a CPU
        for block in self.blocks()[: max(0, len(self.blocks()) - top)]:
            x = block(x)
        return x

    def above(self, maps: Float[Tensor, "b c i j"], top: int) -> Float[Tensor, "b s d"]:
        """The features of every site, from the maps that the last `top` blocks take."""
        x = maps.contiguous(memory_format=torch.channels_last)
        for block in self.blocks()[max(0, len(self.blocks()) - top) :]:
            x = block(x)
        return x.flatten(2).transpose(1, 2)


class CaptionNetwork(_Network, ABC):
    """A network from captions, as ids or as vectors, to their features.

    `features` is the width of a site, `pooled` that of the vector of a whole caption. If it is `projected`, this vector
    has the embedding's size already, one for the mean and one for log σ; otherwise the heads project it.
    `vocabulary` is the number of ids of the words it reads; None where captions are vectors, or subwords. The vector
    of a network that `averages` is the mean of the sites, so that another pooling can take its place.
    """

    features: int
    pooled: int
    projected: bool
    vocabulary: int | None = None
    averages: bool = False

    @abstractmethod
    def forward(self, inputs: Shaped[Tensor, "b ..."], lengths: Int64[Tensor, "b ..."] | None = None) -> Features:
        """The features of captions, of which so many sites are there; without lengths, all are.

        Lengths stay on the CPU, where a network can look at them without waiting for the device. A network with
        `towers` also takes their states as a third argument, where these were computed before.
        """

    def word_vectors(self) -> Sequence[nn.Parameter]:
        """The word vectors, which words.train = false freezes; none in a network without words."""
        return ()

    def towers(self) -> "Sequence[TextTower]":
        """The text towers in it, which learn only where a phase, or their own backbone, says so."""
        return ()

    def tower_inputs(self, tokens: Tokens) -> Sequence[Tokens]:
        """What each of `towers` reads of a batch of captions."""
        return ()

    def frozen(self) -> Sequence[nn.Module]:
        """The parts that no phase trains unless it says so: weights from elsewhere that stay as they are."""
        return ()

    def tokeniser(self, vocab: Vocab) -> Tokeniser:
        """What turns captions into the network's ids: the model's vocabulary, unless it has one of its own."""
        return vocab


class TextTower(CaptionNetwork, ABC):
    """A caption network that was trained elsewhere, whose last blocks a phase may train.

    It is `cacheable` if a caption's features follow from the tower's last hidden states, its tokens' alone.
    """

    cacheable: bool

    @abstractmethod
    def blocks(self) -> Sequence[nn.Module]:
        """The tower's parts from input to output; "the last two" are the last two of them."""

    @abstractmethod
    def states(self, inputs: Int64[Tensor, "b l"], lengths: Int64[Tensor, " b"]) -> Float[Tensor, "b m d"]:
        """The last hidden states of captions, to be computed once and given to `forward`."""

    def towers(self) -> "Sequence[TextTower]":
        """Itself."""
        return (self,)

    def tower_inputs(self, tokens: Tokens) -> Sequence[Tokens]:
        """All of them."""
        return (tokens,)


def present(inputs: Shaped[Tensor, "b s ..."], lengths: Int64[Tensor, " b"]) -> Bool[Tensor, "b s"]:
    """Which sites are there, the first `lengths` of each caption; the others pad."""
    return (torch.arange(inputs.shape[1])[None] < lengths.cpu()[:, None]).to(inputs.device, non_blocking=True)


def full_lengths(inputs: Shaped[Tensor, "b s ..."]) -> Int64[Tensor, " b"]:
    """The lengths of captions without padding."""
    return torch.full((len(inputs),), inputs.shape[1])


def unset(make: Callable[[], N]) -> N:
    """A network whose weights have no values yet: on a real device a layer would draw them from the global stream."""
    with torch.device("meta"):
        network = make()
    return network.to_empty(device="cpu")


def draw_convolutions(
    network: nn.Module, generator: torch.Generator, *, mode: Literal["fan_in", "fan_out"] = "fan_in"
) -> None:
    """Kaiming-normal convolutions (He et al. 2015) with biases of 0, and batch norms at their start."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu", generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()


Network = TypeVar("Network", bound=_Network, covariant=True)


@dataclass(frozen=True)
class Build:
    """The circumstances in which a backbone is built.

    Weights that are not loaded from a file are drawn from `generator`; `word_vectors` are copied by those that use any.
    """

    generator: torch.Generator
    dim: int = 0
    with_sigma: bool = True
    word_vectors: Float[Tensor, "v e"] | None = None


@dataclass(frozen=True)
class Backbone(ABC, Generic[Network]):
    """A backbone as a user names it."""

    fields_without_weights: ClassVar[Mapping[str, object]] = {}

    def without_weights(self, folder: Path | None = None) -> "Backbone[Network]":
        """The same without weights from elsewhere, as those of `folder` follow, where `save_files` wrote."""
        return replace(self, **self.fields_without_weights)

    @abstractmethod
    def build(self, context: Build) -> Network:
        """The network."""


class ImageBackbone(Backbone[ImageNetwork], ABC):
    """An image backbone as a user names it."""


class CaptionBackbone(Backbone[CaptionNetwork], ABC):
    """A caption backbone as a user names it."""


@dataclass(frozen=True)
class Given:
    """A backbone without a network: its features, of this width, are given."""

    features: int

    def __post_init__(self) -> None:
        require("features", self.features >= 1, "at least 1", self.features)


image_backbones: Registry[Backbone[ImageNetwork]] = Registry("image backbone", "pcme.nn.images")
caption_backbones: Registry[Backbone[CaptionNetwork]] = Registry("caption backbone", "pcme.nn.captions")


def require_parts(parts: Sequence[Mapping[str, Any]], example: str) -> None:
    """Refuse parts of a joined backbone that are no list of two or more backbones."""
    listed = isinstance(parts, (list, tuple)) and len(parts) > 1
    valid = listed and all(isinstance(part, Mapping) and "kind" in part for part in parts)
    require("parts", valid, f'two or more backbones, as [{{"kind": "{example}"}}, ...]', f"{parts!r:.80}")
