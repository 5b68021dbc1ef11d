"""ResNet: the paper's image backbone, in plain torch, with torchvision's parameter names.

Official weight files load as they are. He et al. 2016, Deep Residual Learning; the stride of a bottleneck is on its 3x3
convolution, as in the files ("v1.5").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Float, Shaped
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.core.checks import require_known
from pcme.errors import FormatError
from pcme.nn.backbone import Build, ImageBackbone, ImageNetwork, draw_convolutions, image_backbones, unset

Depth = Literal[18, 34, 50, 101, 152]
N = TypeVar("N", bound=nn.Module)


class _Shape(NamedTuple):
    """How many residual blocks each stage has, and of which kind."""

    repeats: tuple[int, int, int, int]
    bottleneck: bool


SHAPES: dict[int, _Shape] = {
    18: _Shape((2, 2, 2, 2), bottleneck=False),
    34: _Shape((3, 4, 6, 3), bottleneck=False),
    50: _Shape((3, 4, 6, 3), bottleneck=True),
    101: _Shape((3, 4, 23, 3), bottleneck=True),
    152: _Shape((3, 8, 36, 3), bottleneck=True),
}
WIDTHS = (64, 128, 256, 512)


class _Residual(nn.Module):
    downsample: nn.Sequential | None

    def _added(self, x: Float[Tensor, "b c h w"], y: Float[Tensor, "b d i j"]) -> Float[Tensor, "b d i j"]:
        return F.relu(y + (x if self.downsample is None else self.downsample(x)), inplace=True)


class _Basic(_Residual):
    """Two 3x3 convolutions, added to their input."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return self._added(x, self.bn2(self.conv2(y)))


class _Bottleneck(_Residual):
    """A 3x3 convolution between two 1x1 ones, added to their input."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, self.expansion * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(self.expansion * width)
        self.downsample = _shortcut(inputs, self.expansion * width, stride)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        return self._added(x, self.bn3(self.conv3(y)))


class StagedNetwork(ImageNetwork):
    """A stem and four stages of residual blocks, with a site per 32x32 pixels."""

    chained = True
    conv1: nn.Module
    bn1: nn.Module
    layer1: nn.Module
    layer2: nn.Module
    layer3: nn.Module
    layer4: nn.Module

    def blocks(self) -> Sequence[nn.Module]:
        """The stem and the four stages."""
        stem = nn.Sequential(self.conv1, self.bn1, nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1))
        return (stem, self.layer1, self.layer2, self.layer3, self.layer4)


class ResNetwork(StagedNetwork):
    """The convolutional part of a ResNet, with a site per 32x32 pixels."""

    mean = (0.485, 0.456, 0.406)
    std = (0.229, 0.224, 0.225)

    def __init__(self, depth: Depth) -> None:
        super().__init__()
        repeats, bottleneck = SHAPES[depth]
        kind = _Bottleneck if bottleneck else _Basic
        inputs = [64, *(kind.expansion * width for width in WIDTHS)]
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _stage(kind, inputs[0], WIDTHS[0], repeats[0], stride=1)
        self.layer2 = _stage(kind, inputs[1], WIDTHS[1], repeats[1], stride=2)
        self.layer3 = _stage(kind, inputs[2], WIDTHS[2], repeats[2], stride=2)
        self.layer4 = _stage(kind, inputs[3], WIDTHS[3], repeats[3], stride=2)
        self.features = inputs[4]


@image_backbones.register("resnet")
@dataclass(frozen=True)
class ResNet(ImageBackbone):
    """A residual network of `depth` layers; `weights` is a state dict (.pth or .safetensors)."""

    fields_without_weights: ClassVar = {"weights": None}
    depth: Depth = 50
    weights: str | Path | None = None

    def __post_init__(self) -> None:
        require_known("depth", self.depth, tuple(SHAPES))

    def build(self, context: Build) -> ResNetwork:
        """The network, with the weights of the file or Kaiming-normal ones."""
        return with_weights(unset(lambda: ResNetwork(self.depth)), self.weights, context)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """A projection of the input where it does not have the shape of the output."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


def _stage(kind: type[_Basic | _Bottleneck], inputs: int, width: int, repeats: int, stride: int) -> nn.Sequential:
    """Residual blocks of one width; the first of them changes the width and the size."""
    others = [kind(kind.expansion * width, width, 1) for _ in range(repeats - 1)]
    return nn.Sequential(kind(inputs, width, stride), *others)


def with_weights(network: N, weights: str | Path | None, context: Build) -> N:
    """The network with the weights of a file, or with Kaiming-normal ones."""
    if weights is None:
        draw_convolutions(network, context.generator, mode="fan_out")
    else:
        load_weights(network, Path(weights))
    return network


def load_weights(network: nn.Module, path: Path) -> None:
    """Copy a file's weights into the network, which must be exactly those it has but for the classifier `fc`."""
    state = {name: value for name, value in _read(path).items() if not name.startswith("fc.")}
    needed = network.state_dict()
    counters = {name for name in needed if name.endswith(".num_batches_tracked")}
    faults = {
        "lacks": needed.keys() - counters - state.keys(),
        "has the unknown": state.keys() - needed.keys(),
        "has the wrong shape for": {n for n in needed.keys() & state.keys() if state[n].shape != needed[n].shape},
    }
    for fault, names in faults.items():
        if names:
            listing = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
            raise FormatError(
                f"{path}: not the weights of this ResNet, it {fault} {listing} ({len(names)} in all). "
                "Give the file of the same depth."
            )
    # Old files count no batches; what the network holds now is uninitialised memory.
    network.load_state_dict({name: torch.zeros((), dtype=torch.long) for name in counters} | state)


def _read(path: Path) -> Mapping[str, Shaped[Tensor, "..."]]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read, got {error.strerror or error}. Check the path.") from error
    except Exception as error:  # damaged bytes can make the readers raise nearly anything
        raise FormatError(
            f"{path}: damaged, or not a file of tensors alone, got {type(error).__name__}. "
            "Download it again, or save it with torch.save(model.state_dict(), path)."
        ) from error
    entries = state.items() if isinstance(state, Mapping) else [(f"a {type(state).__name__}", None)]
    if all(isinstance(name, str) and isinstance(value, Tensor) for name, value in entries):
        return cast("Mapping[str, Tensor]", state)
    got = ", ".join(str(name) for name, _ in list(entries)[:3])
    raise FormatError(f"{path}: not a state dict, got {got}. Save it with torch.save(model.state_dict(), path).")
