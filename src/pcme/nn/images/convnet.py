"""ConvNet: a few convolutions, for small images and a processor without a graphics card."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from pcme.core.checks import require
from pcme.nn.backbone import Build, ImageBackbone, ImageNetwork, draw_convolutions, image_backbones, unset


class ConvNetwork(ImageNetwork):
    """Blocks of convolution 3x3, batch norm and ReLU; each but the last halves the image: four make 8x8 of 64x64."""

    chained = True

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        strides = [2] * (len(widths) - 1) + [1]
        self.stack = nn.Sequential(*map(_block, [3, *widths], widths, strides))
        self.features = widths[-1]

    def blocks(self) -> Sequence[nn.Module]:
        """The blocks, one per width."""
        return tuple(self.stack)


@image_backbones.register("convnet")
@dataclass(frozen=True)
class ConvNet(ImageBackbone):
    """A small network trained from scratch: one 3x3 convolution per width."""

    widths: Sequence[int] = (32, 64, 128, 192)

    def __post_init__(self) -> None:
        valid = bool(self.widths) and min(self.widths) >= 1
        require("widths", valid, "one or more numbers from 1", self.widths)

    def build(self, context: Build) -> ConvNetwork:
        """The network, with Kaiming-normal weights."""
        network = unset(lambda: ConvNetwork(self.widths))
        draw_convolutions(network, context.generator)
        return network


def _block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )
