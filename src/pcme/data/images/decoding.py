"""Decode image files to RGB, safely: the header is judged before anything is decoded.

Files may have any name, a format in FORMATS, and at most `max_pixels` pixels. The result is 8-bit RGB: upright (EXIF
orientation applied), the first frame of an animation, alpha on white, 16-bit and floating-point greys rescaled.
"""

import io
from pathlib import Path
from typing import IO

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from pcme.errors import DataError

_EXTENSIONS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png", ".apng"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp", ".dib"),
    "TIFF": (".tif", ".tiff"),
}
FORMATS = tuple(_EXTENSIONS)
"""The only decoders that are ever run; the rest of Pillow's are rarely used and rarely fuzzed."""
MAX_PIXELS = 64 * 2**20
"""Largest image that is decoded (8,192 x 8,192): with at most 16 bytes per pixel, it never takes over 1 GiB."""
READ_AT_ONCE = 2**20
"""Bytes that are handed to a decoder at a time; Pillow's default is 64 KiB."""
_WIDE_GREYS = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")

Source = Path | bytes | IO[bytes]


class ImageError(DataError):
    """An image that cannot be used; `kind` and `meaning` are as in `Problems.add`."""

    def __init__(self, kind: str, detail: str, *, meaning: str | None = None) -> None:
        super().__init__(detail)
        self.kind, self.meaning = kind, meaning


def decode(source: Source, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """The image in a file, bytes or stream as upright 8-bit RGB; an ImageError when unusable.

    >>> stream = io.BytesIO()
    >>> Image.new("L", (4, 3), 200).save(stream, "PNG")
    >>> decode(stream.getvalue()).getpixel((0, 0))
    (200, 200, 200)
    >>> decode(b"")
    Traceback (most recent call last):
    pcme.data.images.decoding.ImageError: the file has 0 bytes
    """
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise ImageError("image-too-large", f"{width} x {height} pixels, over {max_pixels:,}")
            # Most files then reach their decoder in one piece, and the interpreter's lock is taken once.
            image.decodermaxblock = READ_AT_ONCE
            image.load()
            return _rgb(image)
    except ImageError:
        raise
    except Image.DecompressionBombError as error:
        size = str(error).partition(" exceeds")[0].lower()  # "image size (3600000000 pixels)"
        raise ImageError("image-too-large", f"{size}, over {max_pixels:,}") from error
    except FileNotFoundError as error:
        raise ImageError("image-missing", "no such file") from error
    except UnidentifiedImageError as error:
        raise _unidentified(source) from error
    except Exception as error:  # Pillow's decoders raise nearly anything on damaged input
        text = str(error) or type(error).__name__
        kind = "image-truncated" if "truncated" in text.lower() else "image-unreadable"
        raise ImageError(kind, text) from error


def disguise(path: Path) -> str | None:
    """The actual format of a file with a wrong extension: "PNG" for a PNG called x.jpg."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            actual = image.format or ""
    except (OSError, Image.DecompressionBombError, ValueError, SyntaxError):
        return None
    return None if path.suffix.lower() in _EXTENSIONS.get(actual, ()) else actual


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _WIDE_GREYS:
        image = _eight_bit(image)
    # Without an orientation, or with 1, an image is upright: most photographs need no copy.
    if image.getexif().get(ExifTags.Base.Orientation, 1) != 1:
        image = ImageOps.exif_transpose(image)
    if image.mode == "RGB":
        return image.copy() if image.readonly else image
    if "A" in image.getbands() or "transparency" in image.info:
        image = image if image.mode == "RGBA" else image.convert("RGBA")
        canvas = Image.new("RGB", image.size, (255, 255, 255))
        canvas.paste(image, mask=image.getchannel("A"))
        return canvas
    return image.convert("RGB")


def _eight_bit(image: Image.Image) -> Image.Image:
    """A grey image of more than 8 bits, rescaled: convert() would clip everything to white."""
    values = np.array(image)
    if values.dtype == np.float32:
        np.nan_to_num(values, copy=False, posinf=0, neginf=0)
        values *= 255 / max(float(values.max()), 1e-12)
    else:
        np.clip(values, 0, 65535, out=values)
        values >>= 8
    return Image.fromarray(np.clip(values, 0, 255, out=values).astype(np.uint8))


def _unidentified(source: Source) -> ImageError:
    if isinstance(source, Path):
        size = source.stat().st_size
    else:
        size = len(source) if isinstance(source, bytes) else source.seek(0, io.SEEK_END)
    if size == 0:
        return ImageError("image-empty", "the file has 0 bytes")
    return ImageError("image-unreadable", f"not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file")
