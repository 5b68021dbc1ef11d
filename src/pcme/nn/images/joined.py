"""Joined: several backbones side by side; a site has the features of all of them.

Networks that were trained apart err apart. Each keeps its own blocks: they meet in the heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcme.core.checks import require
from pcme.errors import ConfigError
from pcme.nn.backbone import Backbone, Build, ImageBackbone, ImageNetwork, image_backbones

PROBED = 64
"""Pixels per side of the image that is used to find the widths of maps."""


class _SideBySide(nn.Module):
    """The blocks of one height of all networks: each takes its own channels, or the pixels."""

    def __init__(self, blocks: Sequence[nn.Module], widths: Sequence[int] | None) -> None:
        super().__init__()
        self.blocks, self.widths = nn.ModuleList(blocks), widths

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        own = x.split(list(self.widths), 1) if self.widths else [x] * len(self.blocks)
        return torch.cat([block(part) for block, part in zip(self.blocks, own, strict=True)], 1)


class JoinedNetwork(ImageNetwork):
    """Chained networks with as many blocks each, whose maps are as large at every block."""

    chained = True

    def __init__(self, networks: Sequence[ImageNetwork]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.mean, self.std = networks[0].mean, networks[0].std
        self.features = sum(network.features for network in networks)
        self._widths = _widths(networks)

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b s d"]:
        """The features of every site, one network's after the other's."""
        return self.above(pixels, len(self.blocks()))

    def blocks(self) -> Sequence[nn.Module]:
        """The blocks of all networks, height by height."""
        heights = zip(*(_blocks(network) for network in self.networks), strict=True)
        inputs = [None, *self._widths]
        return [_SideBySide(*both) for both in zip(heights, inputs, strict=True)]


@image_backbones.register("joined")
@dataclass(frozen=True)
class Joined(ImageBackbone):
    """Several backbones side by side: `parts` is a list of {"kind": ..., ...}.

    They take the same pixels, and must be of one build: EfficientNet-Lite0 to 2, or ResNets.
    """

    parts: Sequence[Mapping[str, Any]]

    def __post_init__(self) -> None:
        listed = isinstance(self.parts, (list, tuple)) and len(self.parts) > 1
        valid = listed and all(isinstance(part, Mapping) and "kind" in part for part in self.parts)
        rule = 'two or more backbones, as [{"kind": "resnet"}, ...]'
        require("parts", valid, rule, f"{self.parts!r:.80}")

    def without_weights(self, folder: Path | None = None) -> ImageBackbone:
        """All of them without weights from elsewhere."""
        return _Built([backbone.without_weights() for backbone in self._backbones()])

    def build(self, context: Build) -> JoinedNetwork:
        """The networks, with their weights."""
        return _Built(self._backbones()).build(context)

    def _backbones(self) -> list[Backbone[ImageNetwork]]:
        return [image_backbones.from_record(part) for part in self.parts]


@dataclass(frozen=True)
class _Built(ImageBackbone):
    backbones: Sequence[Backbone[ImageNetwork]]

    def build(self, context: Build) -> JoinedNetwork:
        networks = [backbone.build(context) for backbone in self.backbones]
        for network in networks:
            if not network.chained:
                raise ConfigError(
                    f"{type(network).__name__} cannot be joined, it is no chain of blocks. Join "
                    "backbones of the kinds efficientnet-lite or resnet."
                )
        _require_alike(networks)
        return JoinedNetwork(networks)


def _require_alike(networks: Sequence[ImageNetwork]) -> None:
    kinds = {(len(network.blocks()), network.mean, network.std) for network in networks}
    if len(kinds) > 1:
        found = "; ".join(f"{blocks} blocks, colours {mean} {std}" for blocks, mean, std in kinds)
        raise ConfigError(f"joined backbones must have as many blocks and one norm, got {found}.")


@torch.no_grad()
def _widths(networks: Sequence[ImageNetwork]) -> list[list[int]]:
    """For every block but the last, the channels that each network's gives."""
    found = []
    modes = [network.training for network in networks]
    maps = [torch.zeros(1, 3, PROBED, PROBED) for _ in networks]
    columns = [_blocks(network.eval()) for network in networks]
    for height in list(zip(*columns, strict=True))[:-1]:
        maps = [block(x) for block, x in zip(height, maps, strict=True)]
        found.append([x.shape[1] for x in maps])
    for network, mode in zip(networks, modes, strict=True):
        network.train(mode)
    return found


def _blocks(network: nn.Module) -> Sequence[nn.Module]:
    assert isinstance(network, ImageNetwork), "checked when it was made"
    return network.blocks()
