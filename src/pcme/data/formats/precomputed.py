"""Precomputed: images that are vectors already, from CLIP, a detector or any other model, with vectors or words.

train/images.npy     [n,d] or [n,r,d]: one vector per image, or one per site or region
train/captions.npy   [m,d] or [m,l,d]; without it, captions are the words of captions.txt
train/owners.npy     [m] integers: the image of each caption; without it, caption i belongs to image i
train/captions.txt   one line per caption; beside captions.npy optional, and for display only
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
from pcme.data.text.tokens import tokenise
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
    """Images given as vectors, captions as vectors or as words, one folder per split."""

    layout: ClassVar[str] = "one folder per split with images.npy, captions.npy or .txt, owners.npy (a row's image)"

    root: Path

    @property
    def splits(self) -> tuple[str, ...]:
        """The folders that hold vectors."""
        return tuple(sorted(path.parent.name for path in Path(self.root).glob("*/images.npy")))

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """Whether a folder below has images as an array, and captions."""
        captions = ("captions.npy", "captions.txt")
        return any((path.parent / name).is_file() for path in root.glob("*/images.npy") for name in captions)

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split."""
        folder = Path(self.root) / self.checked_split(split)
        images, stored = VectorFile.open(folder / "images.npy"), folder / "captions.npy"
        captions = VectorFile.open(stored) if stored.exists() else None
        texts = _words(folder) if captions is None else _texts(folder, len(captions))
        pixels, owners = NoPixels(split, len(images)), _owners(folder, len(images), len(texts))
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


def _words(folder: Path) -> tuple[str, ...]:
    """Captions that are given as words alone, none of them empty."""
    path = folder / "captions.txt"
    if not path.exists():
        raise DataError(f"{folder}: has no captions, got images.npy alone. Add captions.npy (vectors) or captions.txt.")
    lines = _lines(path)
    for number, line in enumerate(lines, start=1):
        if not tokenise(line):
            raise DataError(f"{path}: line {number} must be a caption, got {line!r:.40}. Write one, or drop its row.")
    return lines


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: must be text in UTF-8, got {error}. Save it so.") from error


def _texts(folder: Path, count: int) -> tuple[str, ...]:
    path = folder / "captions.txt"
    if not path.exists():
        return ("(a vector)",) * count
    lines = _lines(path)
    if len(lines) != count:
        raise FormatError(f"{path}: must have a line per caption ({count:,}), got {len(lines):,}.")
    return lines
