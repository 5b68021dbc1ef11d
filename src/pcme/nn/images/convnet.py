"""ConvNet: a few convolutions, for small pictures and a processor without a graphics card."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcme.errors import ConfigError
from pcme.nn.backbone import ImageBackbone, ImageNetwork, image_backbones

__all__ = ["ConvNet", "ConvNetwork"]


class ConvNetwork(ImageNetwork):
    """Blocks of convolution 3x3, batch norm and ReLU; each but the last halves the picture.

    Four blocks make 8x8 sites of 64x64 pixels.
    """

    chained = True

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        strides = [2] * (len(widths) - 1) + [1]
        inputs = [3, *widths[:-1]]
        self.stack = nn.Sequential(*map(_block, inputs, widths, strides))
        self.features = widths[-1]

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b s d"]:
        """The features of every site."""
        return self.above(pixels, len(self.stack))

    def blocks(self) -> Sequence[nn.Module]:
        """The blocks, one for each width."""
        return tuple(self.stack)


@image_backbones.register("convnet")
@dataclass(frozen=True)
class ConvNet(ImageBackbone):
    """A small network trained from scratch: one 3x3 convolution for each of the widths."""

    widths: Sequence[int] = (32, 64, 128, 192)

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1:
            raise ConfigError(f"widths must be one or more numbers from 1 - got {self.widths}")

    def build(self, generator: torch.Generator) -> ConvNetwork:
        """The network, with Kaiming-normal weights (He et al. 2015)."""
        # A layer made on a real device would draw its first weights from the global stream.
        with torch.device("meta"):
            network = ConvNetwork(self.widths)
        network.to_empty(device="cpu")
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            elif isinstance(module, nn.BatchNorm2d):
                module.reset_parameters()
        return network


def _block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )
