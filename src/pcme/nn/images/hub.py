"""Hub: any vision tower of `transformers` as the image backbone, by hub name or from a local folder.

CLIP, SigLIP, DINOv2, ViT, ConvNeXt, ResNet and their like: `pip install 'pcme[hub]'`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from pydantic import PositiveFloat, TypeAdapter, ValidationError
from torch import Tensor, nn

from pcme.core import files
from pcme.core.checks import require_known
from pcme.errors import FormatError, ShapeError
from pcme.nn import transformers_towers
from pcme.nn.backbone import Build, ImageBackbone, ImageNetwork, image_backbones
from pcme.nn.transformers_towers import Tower

Sites = Literal["grid", "vector"]
Colour = tuple[float, float, float]
COLOURS = TypeAdapter(tuple[Colour, tuple[PositiveFloat, PositiveFloat, PositiveFloat]])

PROCESSOR = "preprocessor_config.json"
USUAL_SIZE = 224
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# What the processors of these models take where a folder does not say.
USUAL: dict[str, tuple[Colour, Colour]] = {
    "clip_vision_model": (
        (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711),
    ),
    "convnext": IMAGENET, "convnextv2": IMAGENET, "dinov2": IMAGENET, "resnet": IMAGENET,
    "siglip_vision_model": HALF, "vit": HALF,
}  # fmt: skip


class HubImages(ImageNetwork):
    """A vision tower; its sites are its patches (and class token), or its one pooled vector.

    The vector is the projected one where the tower has a projection, as CLIP's: the caption's lies in the same space.
    """

    def __init__(self, tower: Tower, sites: Sites, colours: tuple[Colour, Colour]) -> None:
        super().__init__()
        self.tower, self.sites = tower.model, sites
        self.mean, self.std = colours
        blank = torch.zeros(1, 3, *_size(tower.model.config))
        output = tower.run_example(**_inputs(tower.model, blank))
        if sites == "vector":
            tower.require_pooled(output, 'image.sites="grid"')
        self.features = self._sites(output).shape[-1]

    def forward(self, pixels: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b s d"]:
        """The last hidden states, a row of the grid after the other; or the pooled vector."""
        try:
            output = self.tower(**_inputs(self.tower, pixels))
        except ValueError as error:  # a tower with positions takes images of one size
            height, width = _size(self.tower.config)
            got = "x".join(map(str, pixels.shape[-2:]))
            raise ShapeError(
                f"images must have the tower's {height}x{width} pixels, got {got}. Set augment.size={height}."
            ) from error
        return self._sites(output)

    def _sites(self, output: Any) -> Float[Tensor, "b s d"]:  # noqa: ANN401
        if self.sites == "vector":
            return transformers_towers.pooled(output)[:, None]
        last: Tensor = output.last_hidden_state
        return last.flatten(2).transpose(1, 2) if last.ndim == 4 else last

    def extra_repr(self) -> str:
        """The rest of what decides the features, for the key of their cache."""
        return f"sites={self.sites}, mean={self.mean}, std={self.std}"

    def blocks(self) -> Sequence[nn.Module]:
        """The embeddings and norms, then the layers."""
        return transformers_towers.blocks_of(self.tower)

    def save_files(self, folder: Path) -> None:
        """The tower's config and the colours' statistics."""
        folder.mkdir(parents=True, exist_ok=True)
        config: Any = self.tower.config
        files.write_text(folder / "config.json", config.to_json_string(use_diff=False))
        record = {"image_mean": self.mean, "image_std": self.std}
        files.write_text(folder / PROCESSOR, json.dumps(record, indent=2) + "\n")


@image_backbones.register("hub")
@dataclass(frozen=True)
class Hub(ImageBackbone):
    """A vision tower of transformers: `source` is a hub name or a folder; sites grid or vector.

    Differs: images are scaled as for every other backbone (bilinear, short side as `augment.resize` says), where some
    processors scale bicubically; the colours' statistics are the processor's.
    """

    source: str
    sites: Sites = "grid"

    def __post_init__(self) -> None:
        require_known("sites", self.sites, get_args(Sites))

    def without_weights(self, folder: Path | None = None) -> ImageBackbone:
        """From the config in the model's folder: the source is then not needed."""
        return self if folder is None else _Saved(str(folder), self.sites)

    def build(self, context: Build) -> HubImages:
        """The tower with its weights."""
        tower = transformers_towers.load(self.source, "vision")
        base = transformers_towers.library().image_processing_base.ImageProcessingMixin
        local = Path(self.source).is_dir()
        try:
            record, _ = base.get_image_processor_dict(self.source, local_files_only=local)
        except OSError:  # a folder with the model alone
            record = {}
        return HubImages(tower, self.sites, _colours(tower, record))


class _Saved(Hub):
    """A tower in the folder of a model, whose weights follow."""

    def build(self, context: Build) -> HubImages:
        tower = transformers_towers.rebuild(self.source, "vision")
        processor = Path(self.source) / PROCESSOR
        try:
            record = json.loads(processor.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FormatError(f"{processor}: cannot be read, got {error}. Restore it from a backup.") from error
        return HubImages(tower, self.sites, _colours(tower, record))


def _inputs(model: Any, pixels: Float[Tensor, "b 3 h w"]) -> dict[str, Tensor]:  # noqa: ANN401
    """The model's inputs; for ViT-MAE, which shuffles its patches, also their order."""
    inputs = {"pixel_values": pixels}
    if model.config.model_type == "vit_mae":
        order = torch.arange(model.embeddings.patch_embeddings.num_patches, device=pixels.device)
        inputs["noise"] = order.expand(len(pixels), -1)
    return inputs


def _size(config: Any) -> tuple[int, int]:  # noqa: ANN401 - a config of the library
    """(height, width) of the images that the tower was made for, as far as its config says."""
    size = getattr(config, "image_size", None) or USUAL_SIZE
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return int(height), int(width)


def _colours(tower: Tower, processor: object) -> tuple[Colour, Colour]:
    """(mean, std) of the colours that the tower was made for."""
    settings = processor if isinstance(processor, Mapping) else {}
    if settings.get("do_normalize") is False:
        return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    kind = str(tower.model.config.model_type)
    if "image_mean" not in settings and kind not in USUAL:
        raise FormatError(
            f"{tower.source}: no {PROCESSOR} with the statistics of its colours. "
            "Save the model's image processor into the folder."
        )
    usual_mean, usual_std = USUAL.get(kind, IMAGENET)
    mean, std = settings.get("image_mean", usual_mean), settings.get("image_std", usual_std)
    try:
        return COLOURS.validate_python((mean, std))
    except ValidationError as error:
        raise FormatError(
            f"{tower.source}: image_mean and image_std must be three numbers each, std above 0, got {mean}, {std}."
        ) from error
