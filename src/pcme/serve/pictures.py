"""Pictures: originals of items, if they lie below one folder, and small copies that are made once.

Which file is read is decided by the index alone, never by an address. A path is resolved before it is compared, so a
link that leads out of the folder is refused.
"""

import hashlib
import io
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from pcme.core import files
from pcme.data.images.decoding import FORMATS, ImageError, decode
from pcme.errors import ConfigError
from pcme.index import Item
from pcme.serve.limits import MAX_PIXELS
from pcme.serve.problems import Problem

SIDE = 320
"""The longer side of a small copy, in pixels."""
QUALITY = 85
PIECE = 2**18
"""Bytes that are sent at once."""
MIME = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif", "BMP": "image/bmp"}
"""Formats that browsers show."""
PLACEHOLDER = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 320 240" role="img" aria-label="no picture">'
    b'<rect width="320" height="240" fill="#888" fill-opacity=".15"/>'
    b'<path d="M130 150l25-35 20 25 12-15 23 25z" fill="#888" fill-opacity=".5"/></svg>'
)
"""Shown for a file that is not there or cannot be read."""
LOCKS = 16


@dataclass(frozen=True)
class Picture:
    """Bytes of an image, or a file of `size` bytes that is read while it is sent."""

    media_type: str
    tag: str
    """Changes with the picture."""
    size: int
    content: bytes | BinaryIO

    def close(self) -> None:
        """Close the file, if it is one."""
        if not isinstance(self.content, bytes):
            self.content.close()

    def pieces(self) -> Iterator[bytes]:
        """The file bit by bit; it is closed at the end."""
        assert not isinstance(self.content, bytes)
        with self.content as file:
            while piece := file.read(PIECE):
                yield piece


class Pictures:
    """The pictures below a folder; small copies are kept in another one."""

    def __init__(self, root: Path, cache: Path) -> None:
        if not root.is_dir():
            raise ConfigError(f"{root}: not a folder. Give the folder of the images (--images).")
        self.root, self.cache = root.resolve(), cache / "thumbnails"
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    def original(self, item: Item) -> Picture | None:
        """The file of an item as it is; None where it has gone or is no image that a browser shows."""
        file = self._open(item)
        if file is None:
            return None
        kind = _format(file)
        if kind not in MIME:
            file.close()
            return None
        file.seek(0)
        return Picture(MIME[kind], _tag(file), os.fstat(file.fileno()).st_size, file)

    def thumbnail(self, item: Item) -> Picture | None:
        """A small copy, from the cache if it was made before; None where that cannot be done."""
        file = self._open(item)
        if file is None:
            return None
        with file:
            tag = _tag(file)
            target = self.cache / tag[:2] / f"{tag}.jpg"
            with self._locks[int(tag[:2], 16) % LOCKS]:
                small = _cached(target)
                if small is None:
                    try:
                        small = _shrunk(file)
                    except ImageError:
                        return None
                    _keep(target, small)
        return Picture("image/jpeg", tag, len(small), small)

    def _open(self, item: Item) -> BinaryIO | None:
        """The file of an image below the root, opened; None if it is not there; a problem if it lies elsewhere."""
        if item.kind != "image" or item.path is None or "\0" in item.path:
            return None
        path = self.root / item.path  # an absolute path stays what it is
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: links in a circle
            real = None
        if not (real or Path(os.path.normpath(path))).is_relative_to(self.root):
            raise Problem(403, "the picture of this item does not lie below the folder that is served (--images).")
        if real is None:
            return None
        try:  # neither a link that has just been put there nor a pipe that never ends
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
        return os.fdopen(descriptor, "rb")


def _tag(file: BinaryIO) -> str:
    """A digest of what tells a file and its state from others."""
    state = os.fstat(file.fileno())
    facts = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, SIDE)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _format(file: BinaryIO) -> str | None:
    """The format by the file's beginning; None for what is no image."""
    try:
        with Image.open(file, formats=FORMATS) as image:
            return image.format
    except Exception:  # Pillow raises nearly anything on damaged files
        return None


def _shrunk(file: BinaryIO) -> bytes:
    image = decode(file, max_pixels=MAX_PIXELS)
    image.thumbnail((SIDE, SIDE))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=QUALITY)
    return stream.getvalue()


def _cached(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _keep(path: Path, data: bytes) -> None:
    """Write a small copy; without room or rights it is made again the next time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as draft:
            draft.write_bytes(data)
