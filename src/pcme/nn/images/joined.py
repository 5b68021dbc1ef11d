"""Joined: several backbones side by side; a site has the features of all of them.

Networks that were trained apart err apart. Each keeps its own blocks: they meet in the heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcme.errors import ConfigError
from pcme.nn.backbone import Backbone, Build, ImageBackbone, ImageNetwork, image_backbones, require_parts

PROBED = 64
"""Pixels per side of the image that is used to find the widths of maps."""


class _SideBySide(nn.Module):
    """The blocks of one height of all networks: each takes its own channels, or the pixels."""

    def __init__(self, blocks: Sequence[nn.Module], widths: Sequence[int] | None) -> None:
        super().__init__()
        self.blocks, self.widths = nn.ModuleList(blocks), widths

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        parts = x.split(list(self.widths), 1) if self.widths else [x] * len(self.blocks)
        return torch.cat([block(part) for block, part in zip(self.blocks, parts, strict=True)], 1)


class JoinedNetwork(ImageNetwork):
    """Chained networks with as many blocks each, whose maps are as large at every block."""

    chained = True

    def __init__(self, networks: Sequence[ImageNetwork]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.mean, self.std = networks[0].mean, networks[0].std
        self.features = sum(network.features for network in networks)
        self._widths = list(zip(*map(_widths, networks), strict=True))  # per height, of every network

    def blocks(self) -> Sequence[nn.Module]:
        """The blocks of all networks, height by height."""
        heights = zip(*(cast("ImageNetwork", network).blocks() for network in self.networks), strict=True)
        return list(map(_SideBySide, heights, [None, *self._widths]))


@image_backbones.register("joined")
@dataclass(frozen=True)
class Joined(ImageBackbone):
    """Several backbones side by side: `parts` is a list of {"kind": ..., ...}.

    They take the same pixels, and must be of one build: EfficientNet-Lite0 to 2, or ResNets.
    """

    parts: Sequence[Mapping[str, Any]]

    def __post_init__(self) -> None:
        require_parts(self.parts, "resnet")

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
                    f"{type(network).__name__} cannot be joined, it is no chain of blocks. "
                    "Join backbones of the kinds efficientnet-lite or resnet."
                )
        kinds = {(len(network.blocks()), network.mean, network.std) for network in networks}
        if len(kinds) > 1:
            got = "; ".join(f"{blocks} blocks, colours {mean} {std}" for blocks, mean, std in kinds)
            raise ConfigError(f"joined backbones must have as many blocks and one norm, got {got}.")
        return JoinedNetwork(networks)


@torch.no_grad()
def _widths(network: ImageNetwork) -> list[int]:
    """The channels that each block but the last gives."""
    widths, maps, mode = [], torch.zeros(1, 3, PROBED, PROBED), network.training
    for block in network.eval().blocks()[:-1]:
        maps = block(maps)
        widths.append(maps.shape[1])
    network.train(mode)
    return widths
