"""Image transforms: crop, scale, flip, cut out; erasing and mixing for analyses.

Pillow images become uint8 tensors [3, h, w]; `normalise` brings a batch to a backbone's statistics on the device, where
it is cheap. Random transforms take a numpy Generator, so that a sample does not depend on the thread that draws it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from PIL import Image
from torch import Tensor

from pcme.core.checks import require, require_known
from pcme.data.images.scaling import Box, scale_box, scale_centre
from pcme.errors import ConfigError, DataError, ShapeError

MEAN_COLOUR = (124, 116, 104)
"""The mean of ImageNet: it fills a cut-out, which is then 0 after `normalise`."""
CUTOUT_AREA = (0.02, 1 / 3)
CUTOUT_RATIO = (0.3, 1 / 0.3)
TRIES = 10

Crop = Literal["centre", "scaled-centre", "random-resized", "none"]


@dataclass(frozen=True)
class ImageTransform:
    """From an image to a square of `size` pixels a side, scaled bilinearly and antialiased.

    `crop` says which part of the image is scaled to the square:

    - "centre": the short side is scaled to `resize` and the centre cut; without `resize` the whole image is squeezed.
    - "scaled-centre": the same in the order and with the rounding of torchvision, and Pillow's scaling: the whole image
      is scaled and then cut, for a model that needs exactly those pixels.
    - "random-resized": a part with a share of the area in `scale` and width : height in `ratio`.
    - "none": the whole image, squeezed into the square.

    Then, at random, `flip` left and right, and with probability `cutout` fill a rectangle with the colour `fill`; with
    probability `erasing` a rectangle of any size is filled (`erase`), so that σ learns from images that show little.

    Paper: §4.1 (Cutout 0.2), §C.2. Differs: the paper calls 0.2 the erasing ratio; in the authors' code, and here, it
    is the probability of random erasing with an area of 2 to 33 %. The centre crop is cut from the image at whole
    pixels and then scaled, where torchvision scales the whole image first: at most half a pixel of the original apart.

    >>> transform = ImageTransform.evaluation(size=64)
    >>> transform(Image.new("RGB", (640, 480), (200, 60, 40))).shape
    torch.Size([3, 64, 64])
    >>> transform.deterministic, ImageTransform.training().deterministic
    (True, False)
    """

    size: int = 224
    resize: int | None = 256
    crop: Crop = "centre"
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = False
    cutout: float = 0.0
    erasing: float = 0.0
    fill: tuple[int, int, int] = MEAN_COLOUR

    def __post_init__(self) -> None:
        centred = self.crop in ("centre", "scaled-centre")
        resize = (centred and self.resize) or self.size
        low, high = self.scale
        narrow, wide = self.ratio
        colour = len(self.fill) == 3 and 0 <= min(self.fill) <= max(self.fill) <= 255
        require("size", self.size >= 1, "at least 1", self.size)
        require_known("crop", self.crop, get_args(Crop))
        require("resize", resize >= self.size, f"at least size={self.size}", resize)
        require("scale", 0 < low <= high <= 1, "two rising shares above 0", self.scale)
        require("ratio", 0 < narrow <= wide < math.inf, "two rising numbers above 0", self.ratio)
        require("cutout", 0 <= self.cutout <= 1, "from 0 to 1", self.cutout)
        require("erasing", 0 <= self.erasing <= 1, "from 0 to 1", self.erasing)
        require("fill", colour, "three numbers from 0 to 255", self.fill)

    @classmethod
    def evaluation(cls, size: int = 224, resize: int | None = None) -> "ImageTransform":
        """The centre crop of 224 from 256, or in this ratio, or from `resize`. Paper: §C.2 (all tests, CUB)."""
        return cls(size=size, resize=round(size * 256 / 224) if resize is None else resize)

    @classmethod
    def training(cls, size: int = 224) -> "ImageTransform":
        """Random resized crop, flip, and cut-out with probability 0.2. Paper: §4.1, §C.2 (training on COCO)."""
        return cls(size=size, crop="random-resized", flip=True, cutout=0.2)

    @property
    def deterministic(self) -> bool:
        """Whether an image always gives the same pixels, so that its features can be cached."""
        return self.crop != "random-resized" and not (self.flip or self.cutout or self.erasing)

    def __call__(
        self, image: Image.Image, generator: np.random.Generator | None = None
    ) -> UInt8[Tensor, "3 size size"]:
        """The pixels of the square; a generator is needed unless `deterministic`."""
        pixels = torch.empty(3, self.size, self.size, dtype=torch.uint8)
        self.write(pixels, image, generator)
        return pixels

    def write(
        self, out: UInt8[Tensor, "3 size size"], image: Image.Image, generator: np.random.Generator | None = None
    ) -> None:
        """Write the same pixels to `out`, a row of a batch."""
        if image.mode != "RGB":
            raise DataError(f'image: must be RGB, got mode "{image.mode}". Convert it first.')
        if generator is None and not self.deterministic:
            raise ConfigError("generator: is missing, and this transform is random. Pass one.")
        if self.crop == "scaled-centre":
            pixels = scale_centre(image, self.resize or self.size, self.size)
        else:
            pixels = scale_box(image, self._box(*image.size, generator), self.size)
        mirrored = self.flip and generator is not None and generator.random() < 0.5
        # numpy reads backwards at no cost; torch would make a mirrored copy first
        np.copyto(out.numpy(), pixels[:, :, ::-1] if mirrored else pixels)
        if self.cutout and generator is not None and generator.random() < self.cutout:
            hole = _draw_box(self.size, self.size, CUTOUT_AREA, CUTOUT_RATIO, generator)
            if hole is not None:
                _fill(out, hole, self.fill)
        if self.erasing and generator is not None and generator.random() < self.erasing:
            _fill(out, _nested_box(self.size, self.size, generator.random(), generator), self.fill)

    def _box(self, width: int, height: int, generator: np.random.Generator | None) -> Box:
        if self.crop == "random-resized" and generator is not None:
            box = _draw_box(width, height, self.scale, self.ratio, generator)
            # Where none fits, as torchvision: the largest part in the middle whose shape is allowed.
            widest = max(1, min(width, round(height * self.ratio[1])))
            highest = max(1, min(height, round(width / self.ratio[0])))
            return box or _centred(widest, highest, width, height)
        if self.crop == "none" or self.resize is None:
            return 0, 0, width, height
        side = max(1, round(min(width, height) * self.size / self.resize))
        return _centred(side, side, width, height)


def normalise(
    pixels: UInt8[Tensor, "b 3 h w"], mean: Sequence[float], std: Sequence[float]
) -> Float32[Tensor, "b 3 h w"]:
    """(x − 255·mean) / (255·std) in a new tensor; `mean` and `std` are those of colours from 0 to 1."""
    if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
        raise ConfigError(f"mean, std: must be three numbers each, std above 0, got {mean}, {std}.")
    offset = pixels.new_tensor([255 * value for value in mean], dtype=torch.float32)
    factor = pixels.new_tensor([1 / (255 * value) for value in std], dtype=torch.float32)
    return torch.sub(pixels, offset.view(3, 1, 1)).mul_(factor.view(3, 1, 1))


def erase(
    pixels: UInt8[Tensor, "3 h w"],
    ratio: float,
    generator: np.random.Generator,
    *,
    fill: tuple[int, int, int] = MEAN_COLOUR,
) -> UInt8[Tensor, "3 h w"]:
    """A copy in which a rectangle of `ratio` of the area, to within a row, has one colour. Paper: §4.4, Fig. 7; §F.1.

    The rectangle has the shape of the image and a random position. Nested: with the same seed, a larger ratio erases
    everything that a smaller one does; 0 erases nothing, 1 everything.
    """
    erased = pixels.clone()
    _fill(erased, _nested_box(pixels.shape[2], pixels.shape[1], ratio, generator), fill)
    return erased


def cutmix(
    a: UInt8[Tensor, "3 h w"], b: UInt8[Tensor, "3 h w"], ratio: float, generator: np.random.Generator
) -> tuple[UInt8[Tensor, "3 h w"], float]:
    """A copy of `a` with a rectangle of `b`, drawn as in `erase`, and its exact share of the area. Paper: §4.4."""
    if a.shape != b.shape:
        raise ShapeError(f"images: must have one shape, got {tuple(a.shape)} and {tuple(b.shape)}.")
    left, top, right, bottom = _nested_box(a.shape[2], a.shape[1], ratio, generator)
    mixed = a.clone()
    mixed[:, top:bottom, left:right] = b[:, top:bottom, left:right]
    return mixed, (right - left) * (bottom - top) / (a.shape[1] * a.shape[2])


def _centred(width: int, height: int, outer_width: int, outer_height: int) -> Box:
    left, top = (outer_width - width) // 2, (outer_height - height) // 2
    return left, top, left + width, top + height


def _draw_box(
    width: int, height: int, area: tuple[float, float], ratio: tuple[float, float], generator: np.random.Generator
) -> Box | None:
    """A box with a uniform share of the area, a log-uniform shape and a uniform position; None if none fits."""
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(TRIES):
        target = width * height * generator.uniform(*area)
        shape = math.exp(generator.uniform(low, high))
        w, h = round(math.sqrt(target * shape)), round(math.sqrt(target / shape))
        if 0 < w <= width and 0 < h <= height:
            left = int(generator.integers(width - w + 1))
            top = int(generator.integers(height - h + 1))
            return left, top, left + w, top + h
    return None


def _nested_box(width: int, height: int, ratio: float, generator: np.random.Generator) -> Box:
    """A box of this share of the area; every side moves outwards, or stays, as the share grows."""
    require("ratio", 0 <= ratio <= 1, "from 0 to 1", ratio)
    across, down = generator.random(2)
    # Rounded half a pixel apart: in a square, the sides grow in turn and not at once.
    side = math.sqrt(ratio)
    w, h = int(width * side + 0.25), int(height * side + 0.75)
    left, top = round((width - w) * across), round((height - h) * down)
    return left, top, left + w, top + h


def _fill(pixels: UInt8[Tensor, "3 h w"], box: Box, colour: tuple[int, int, int]) -> None:
    left, top, right, bottom = box
    pixels[:, top:bottom, left:right] = pixels.new_tensor(colour).view(3, 1, 1)
