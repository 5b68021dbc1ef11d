"""Inputs of a model as users give them: image files, PIL images, tensors, texts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from pcme.data.images.decoding import ImageError, decode
from pcme.data.images.transforms import ImageTransform
from pcme.errors import DataError, ShapeError

ImageInput = str | Path | Image.Image | Tensor
T = TypeVar("T")


def to_pixels(image: ImageInput, number: int, transform: ImageTransform) -> UInt8[Tensor, "3 size size"]:
    """The pixels of an image; a tensor of the transform's own size is taken as it is."""
    if isinstance(image, Tensor):
        if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] != 3:
            raise ShapeError(
                f"image {number}: must be an 8-bit tensor [3,h,w], got {image.dtype} "
                f"{list(image.shape)}. Give pixels from 0 to 255 as torch.uint8."
            )
        if image.shape == (3, transform.size, transform.size):
            return image.cpu()
        image = Image.fromarray(image.permute(1, 2, 0).cpu().numpy())
    return transform(_rgb(image, number), None)


def to_text(caption: str, number: int) -> str:
    """The caption, if it is text."""
    if not isinstance(caption, str):
        raise DataError(f"caption {number}: must be text, got {caption!r:.60}.")
    return caption


def batches(items: Sequence[T], size: int, name: str) -> Iterator[tuple[int, Sequence[T]]]:
    """(number of its first item, items) of each batch."""
    if isinstance(items, str) or not len(items):
        raise DataError(f"{name}: must be a list with at least one item, got {items!r}.")
    return ((start, items[start : start + size]) for start in range(0, len(items), size))


def _rgb(image: str | Path | Image.Image, number: int) -> Image.Image:
    try:
        return image.convert("RGB") if isinstance(image, Image.Image) else decode(Path(image))
    except (ImageError, OSError) as error:
        name = f"image {number}" if isinstance(image, Image.Image) else str(image)
        raise DataError(f"{name}: {error}. Fix the file or remove it from the list.") from error
