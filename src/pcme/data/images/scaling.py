"""Scaling: a part of an image as a square of pixels."""

import numpy as np
import pyarrow
import torch
from jaxtyping import UInt8
from PIL import Image
from torch.nn import functional as F

LARGEST_SCALED = 50_000_000
"""The largest image, in pixels, that is scaled as a whole before it is cut."""
Box = tuple[int, int, int, int]
"""Left, top, right, bottom; the latter two are just outside."""


def scale_box(image: Image.Image, box: Box, size: int) -> UInt8[np.ndarray, "3 size size"]:
    """The part of the image in the box, scaled to a square; a view of interleaved colours.

    torch's kernel takes a third of the time of Pillow's, agrees with it within one grey level, and releases the GIL.
    """
    # With these strides the kernel also writes pixels, not planes, and takes a third less time.
    part = torch.from_numpy(_part(image, box)).unsqueeze(0).permute(0, 3, 1, 2)
    if part.shape[2:] != (size, size):
        part = F.interpolate(part, (size, size), mode="bilinear", antialias=True)
    pixels: UInt8[np.ndarray, "3 size size"] = part[0, :3].numpy()
    return pixels


def scale_centre(image: Image.Image, resize: int, size: int) -> UInt8[np.ndarray, "3 size size"]:
    """torchvision's Resize(resize) and CenterCrop(size) of a Pillow image."""
    short = min(image.size)
    width, height = (int(resize * side / short) for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    right, bottom = left + size, top + size
    if width * height <= LARGEST_SCALED:
        scaled = image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, right, bottom))
    else:  # a line of pixels would fill the memory: only its middle, within one grey level
        x, y = image.width / width, image.height / height
        scaled = image.resize((size, size), Image.Resampling.BILINEAR, box=(left * x, top * y, right * x, bottom * y))
    return np.array(scaled).transpose(2, 0, 1)


def _part(image: Image.Image, box: Box) -> UInt8[np.ndarray, "h w c"]:
    """A copy of the pixels in the box: 4 channels if the image's memory is accessible, else 3."""
    whole = _memory(image)
    if whole is None:
        return np.array(image.crop(box))
    left, top, right, bottom = box
    return np.array(whole[top:bottom, left:right], order="C")


def _memory(image: Image.Image) -> UInt8[np.ndarray, "h w 4"] | None:
    """The image's own memory (RGB and an unused byte), where it lies in one piece.

    Saves packing the pixels twice under the GIL, as numpy.asarray does: a fifth of the transform.
    """
    try:
        data = pyarrow.array(image).values.buffers()[1]
    except (TypeError, ValueError):  # an old Pillow, or a large image: not in one piece
        return None
    return np.frombuffer(data, np.uint8).reshape(image.height, image.width, 4)
