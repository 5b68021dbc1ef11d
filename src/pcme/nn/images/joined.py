"""Joined: several backbones side by side; a site has the features of all of them.

Networks that were trained apart err apart: what the one takes for a feature of a bird and is an
accident of the picture, the other does not. Each is still its own: they meet in the heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcme.errors import ConfigError
from pcme.nn.backbone import ImageBackbone, ImageNetwork, image_backbones

__all__ = ["Joined", "JoinedNetwork"]

PROBED = 64
"""Pixels a side of the picture by which the widths of maps are learned."""


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
        if not listed or not all(
            isinstance(part, Mapping) and "kind" in part for part in self.parts
        ):
            raise ConfigError(
                'parts must be two or more backbones, as [{"kind": "resnet"}, ...] - got '
                f"{self.parts!r:.80}"
            )

    def bare(self) -> "ImageBackbone":
        """All of them without weights from elsewhere."""
        return _Built([backbone.bare() for backbone in self._backbones()])

    def build(self, generator: torch.Generator) -> JoinedNetwork:
        """The networks, with their weights."""
        return _Built(self._backbones()).build(generator)

    def _backbones(self) -> list[ImageBackbone]:
        parts = [dict(part) for part in self.parts]
        return [image_backbones.create(part.pop("kind"), **part) for part in parts]


@dataclass(frozen=True)
class _Built(ImageBackbone):
    backbones: Sequence[ImageBackbone]

    def build(self, generator: torch.Generator) -> JoinedNetwork:
        networks = [backbone.build(generator) for backbone in self.backbones]
        for network in networks:
            if not network.chained:
                raise ConfigError(
                    f"{type(network).__name__} cannot be joined, for it is no chain of blocks - "
                    "join backbones of the kinds efficientnet-lite or resnet"
                )
        _require_alike(networks)
        return JoinedNetwork(networks)


def _require_alike(networks: Sequence[ImageNetwork]) -> None:
    kinds = {(len(network.blocks()), network.mean, network.std) for network in networks}
    if len(kinds) > 1:
        found = "; ".join(f"{blocks} blocks, colours {mean} {std}" for blocks, mean, std in kinds)
        raise ConfigError(
            "backbones that are joined have as many blocks each, and the same colours - got "
            f"{found}"
        )


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
