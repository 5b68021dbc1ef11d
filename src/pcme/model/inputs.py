"""Inputs of a model as users give them: image files, PIL images, tensors, texts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from pcme.core.progress import Progress
from pcme.data.images.decoding import ImageError, decode
from pcme.data.images.transforms import ImageTransform
from pcme.embedding import Embedding, joined
from pcme.errors import DataError, ShapeError

ImageInput = str | Path | Image.Image | Tensor
T = TypeVar("T")


def to_pixels(image: ImageInput, number: int, transform: ImageTransform) -> UInt8[Tensor, "3 size size"]:
    """The pixels of an image; a tensor of the transform's own size is taken as it is."""
    if isinstance(image, Tensor):
        if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] != 3:
            raise ShapeError(
                f"image {number}: must be an 8-bit tensor [3,h,w], got {image.dtype} {list(image.shape)}. "
                "Give pixels from 0 to 255 as torch.uint8."
            )
        if image.shape == (3, transform.size, transform.size):
            return image.cpu()
        image = Image.fromarray(image.permute(1, 2, 0).cpu().numpy())
    try:
        rgb = image.convert("RGB") if isinstance(image, Image.Image) else decode(Path(image))
    except (ImageError, OSError) as error:
        name = f"image {number}" if isinstance(image, Image.Image) else str(image)
        raise DataError(f"{name}: {error}. Fix the file or remove it from the list.") from error
    return transform(rgb, None)


def to_text(caption: str, number: int) -> str:
    """The caption, if it is text."""
    if not isinstance(caption, str):
        raise DataError(f"caption {number}: must be text, got {caption!r:.60}.")
    return caption


def embed_in_batches(
    items: Sequence[T],
    name: str,
    batch_size: int,
    embed: Callable[[list[tuple[int, T]]], Embedding],
    progress: Progress,
) -> Embedding:
    """The embeddings of all items, on the CPU; `embed` takes a batch of (number, item)."""
    if isinstance(items, str) or not len(items):
        raise DataError(f"{name}: must be a list with at least one item, got {items!r}.")
    parts = []
    for start in range(0, len(items), batch_size):
        batch = list(enumerate(items[start : start + batch_size], start))
        parts.append(embed(batch).to("cpu"))
        progress(name, start + len(batch), len(items))
    return joined(parts)
