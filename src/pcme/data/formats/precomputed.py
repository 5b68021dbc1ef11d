"""Precomputed: images and captions that are vectors already, from CLIP or any other model.

train/images.npy     [n,d] or [n,s,d]: one vector per image, or one per site
train/captions.npy   [m,d] or [m,l,d]
train/owners.npy     [m] integers: the image of each caption; without it, caption i belongs to image i
train/captions.txt   optional, one line per caption, for display only
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Int64
from PIL import Image

from pcme.data.arrays import VectorFile, mapped_array
from pcme.data.dataset import CaptionDataset
from pcme.data.images.decoding import ImageError
from pcme.data.layout import Dataset, registry
from pcme.data.problems import Problems
from pcme.data.sources import ImageSource
from pcme.errors import DataError, FormatError


@dataclass(frozen=True, eq=False)
class NoPixels(ImageSource):
    """Images of which only vectors are known."""

    split: str
    count: int

    def __len__(self) -> int:
        return self.count

    def id(self, index: int) -> str:
        """The split and the row."""
        return f"{self.split}/{range(self.count)[index]}"

    def load(self, index: int) -> Image.Image:
        """There is nothing to load."""
        raise ImageError("image-missing", f"{self.id(index)} is a vector: there are no pixels to look at")

    def stamp(self, index: int) -> str:
        """Rows are looked up, not computed."""
        return self.id(index)


@registry.register("precomputed")
@dataclass(frozen=True)
class Precomputed(Dataset):
    """Images and captions given as vectors, one folder per split."""

    layout: ClassVar[str] = "one folder per split with images.npy, captions.npy and owners.npy (a row's image)"

    root: Path

    @property
    def splits(self) -> tuple[str, ...]:
        """The folders that hold vectors."""
        return tuple(sorted(path.parent.name for path in Path(self.root).glob("*/images.npy")))

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """Whether a folder below has both arrays."""
        return any((path.parent / "captions.npy").is_file() for path in root.glob("*/images.npy"))

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split."""
        folder = Path(self.root) / self.checked_split(split)
        images, captions = (VectorFile.open(folder / f"{side}.npy") for side in ("images", "captions"))
        pixels, texts = NoPixels(split, len(images)), _texts(folder, len(captions))
        owners = _owners(folder, len(images), len(captions))
        return CaptionDataset.by_image(
            "precomputed", split, pixels, texts, owners, image_vectors=images, caption_vectors=captions
        )


def _owners(folder: Path, images: int, captions: int) -> Int64[np.ndarray, " m"]:
    path = folder / "owners.npy"
    if path.exists():
        owners = mapped_array(path)
    elif images == captions:
        owners = np.arange(images)
    else:
        counts = f"{images:,} images and {captions:,} captions"
        raise DataError(f"{folder}: owners.npy is missing, {counts}. Add it, to say which belong together.")
    if owners.shape != (captions,) or owners.dtype.kind not in "iu":
        shape = f"{owners.dtype} {list(owners.shape)}"
        raise FormatError(f"{path}: must hold {captions:,} integers, one per caption, got {shape}.")
    if captions and not 0 <= owners.min() <= owners.max() < images:
        limits = f"{owners.min():,} to {owners.max():,}"
        raise FormatError(f"{path}: must name images from 0 to {images - 1:,}, got {limits}.")
    return np.array(owners, np.int64)


def _texts(folder: Path, count: int) -> tuple[str, ...]:
    path = folder / "captions.txt"
    if not path.exists():
        return ("(a vector)",) * count
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) != count:
        raise FormatError(f"{path}: must have a line per caption ({count:,}), got {len(lines):,}.")
    return tuple(lines)
