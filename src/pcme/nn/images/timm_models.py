"""timm: any image model of that package as the backbone, if it is installed.

It is imported only to build a model, for it needs torchvision, which does not import beside every build of torch.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcme.errors import ConfigError
from pcme.nn.backbone import Build, ImageBackbone, ImageNetwork, image_backbones
from pcme.nn.transformers_towers import blocks_of


class TimmNetwork(ImageNetwork):
    """A model of timm without its classifier; its sites are its unpooled features."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - a package that need not be installed
        super().__init__()
        self.model = model
        self.features = int(model.num_features)
        self.mean, self.std = (tuple(model.pretrained_cfg[key]) for key in ("mean", "std"))

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b s d"]:
        """The features of every site."""
        maps: Tensor = self.model.forward_features(pixels)
        if maps.ndim == 3:
            return maps
        # Convolutions have their channels first, Swin's windows last.
        channels_first = maps.shape[1] == self.features
        return maps.flatten(2).transpose(1, 2) if channels_first else maps.flatten(1, 2)

    def extra_repr(self) -> str:
        """The rest of what decides the features, for the key of their cache."""
        return f"mean={self.mean}, std={self.std}"

    def blocks(self) -> Sequence[nn.Module]:
        """The stem and norms, then the layers."""
        return blocks_of(self.model)


@image_backbones.register("timm")
@dataclass(frozen=True)
class Timm(ImageBackbone):
    """An image model of timm: `model` is its name there; with its weights unless told otherwise."""

    fields_without_weights: ClassVar = {"pretrained": False}
    model: str
    pretrained: bool = True

    def build(self, context: Build) -> TimmNetwork:
        """The model; without weights of its own it must be loaded next, for timm draws globally."""
        try:
            timm = importlib.import_module("timm")
        except (ImportError, RuntimeError) as error:  # torchvision beside the wrong torch
            raise ConfigError(
                f"a timm backbone needs timm, which cannot be imported, got {error}. Run "
                "pip install 'pcme[timm]', with a torchvision that fits your torch."
            ) from error
        if not timm.is_model(self.model):
            raise ConfigError(f'timm has no model "{self.model}". See timm.list_models().')
        with torch.random.fork_rng(devices=[]):
            return TimmNetwork(timm.create_model(self.model, pretrained=self.pretrained, num_classes=0))
