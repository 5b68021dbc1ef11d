"""Image sources: images that are read, or drawn, one at a time and only when asked for."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64
from PIL import Image

from pcme.data.images.decoding import decode


class ImageSource(ABC):
    """A sequence of images that are read, or drawn, one at a time and only when asked for."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def id(self, index: int) -> str:
        """The image's id: unique, stable, and what an error message calls it."""

    @abstractmethod
    def load(self, index: int) -> Image.Image:
        """The image as upright 8-bit RGB; an ImageError when it cannot be used."""

    @abstractmethod
    def stamp(self, index: int) -> str:
        """A text that changes whenever the image may have; cheap, so the image is not read."""

    def path(self, index: int) -> Path | None:
        """The image's own file, where it has one."""
        return None


def file_stamp(path: Path) -> str:
    """Size and time of change, as `make` and `git status` do it; "missing" without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return "missing"
    return f"{status.st_size}:{status.st_mtime_ns}"


class NamedImages(ImageSource):
    """Images with a name each."""

    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    def id(self, index: int) -> str:
        """The name."""
        return self.names[index]


@dataclass(frozen=True)
class Files(NamedImages):
    """Image files below a folder, by their names relative to it."""

    root: Path
    names: Sequence[str]

    def load(self, index: int) -> Image.Image:
        """The decoded file."""
        return decode(self.path(index))

    def stamp(self, index: int) -> str:
        """See `file_stamp`."""
        return file_stamp(self.path(index))

    def path(self, index: int) -> Path:
        """The file."""
        return self.root / self.names[index]


class _View(ImageSource):
    """Images of another source; `_origin` is the index there."""

    source: ImageSource

    def _origin(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return len(self.source)

    def id(self, index: int) -> str:
        """The id in the source."""
        return self.source.id(self._origin(index))

    def load(self, index: int) -> Image.Image:
        """The image."""
        return self.source.load(self._origin(index))

    def stamp(self, index: int) -> str:
        """The stamp in the source."""
        return self.source.stamp(self._origin(index))

    def path(self, index: int) -> Path | None:
        """The image's own file, where it has one."""
        return self.source.path(self._origin(index))


@dataclass(frozen=True)
class Subset(_View):
    """Some images of a source, in the order given."""

    source: ImageSource
    indices: Int64[np.ndarray, " n"]

    def _origin(self, index: int) -> int:
        return int(self.indices[index])

    def __len__(self) -> int:
        return len(self.indices)


class CachedImages(_View):
    """A source whose images are read, or drawn, once and kept in memory up to `limit` bytes; thread-safe."""

    def __init__(self, source: ImageSource, *, limit: int = 512 * 2**20) -> None:
        self.source, self.limit = source, limit
        self._images: dict[int, Image.Image] = {}
        self._bytes = 0

    def load(self, index: int) -> Image.Image:
        """The image, shared by all callers: do not change it."""
        if (image := self._images.get(index)) is None:
            image = self.source.load(index)
            size = 4 * image.width * image.height  # Pillow keeps four bytes per pixel
            if self._bytes + size <= self.limit:
                self._bytes += size
                self._images[index] = image
        return image
