"""Decoding: upright 8-bit RGB comes out, or an error that says what is wrong; never more."""

import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pcme.data.images.decoding import MAX_PIXELS, ImageError, decode, disguise
from tests.helpers import picture, unless_annotations_are_enforced


def encoded(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def ramp(mode="RGB", size=(16, 12)):
    pixels = np.linspace(0, 255, size[0] * size[1] * 3).reshape(size[1], size[0], 3)
    return Image.fromarray(pixels.astype(np.uint8)).convert(mode)


def png_header(width, height):
    """A PNG whose header promises width x height pixels, with next to no data."""

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def outcome(source):
    try:
        return decode(source).mode
    except ImageError as error:
        return error.kind


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP", "GIF", "JPEG"])
def test_pixels_come_back_as_they_were(kind):
    image = Image.new("RGB", (9, 7), (10, 200, 30)) if kind == "GIF" else ramp()
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95, "subsampling": 0}}.get(kind, {})
    decoded = decode(encoded(image, kind, **options))
    assert (decoded.mode, decoded.size) == ("RGB", image.size)
    assert np.abs(np.asarray(decoded, int) - np.asarray(image)).mean() <= (3 if kind == "JPEG" else 0)


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (99, 99, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("raw", "kinds"),
    [
        (encoded(NOISE, "JPEG")[:5000], {"image-truncated"}),
        (encoded(NOISE, "PNG")[:5000], {"image-truncated", "image-unreadable"}),
        (b"this is not a picture, whatever its name says", {"image-unreadable"}),
        *((encoded(ramp(), kind), {"image-unreadable"}) for kind in ("PPM", "TGA", "ICO")),
        (png_header(60_000, 60_000), {"image-too-large"}),
    ],
    ids=("JPEG", "PNG", "text", "PPM", "TGA", "ICO", "huge"),
)
def test_each_defect_has_its_name(raw, kinds):
    assert outcome(raw) in kinds


@unless_annotations_are_enforced
def test_files_that_are_empty_missing_or_of_another_kind_are_seen(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    assert outcome(tmp_path / "a.jpg") == outcome(io.BytesIO()) == "image-empty"
    assert outcome(tmp_path / "nowhere.jpg") == "image-missing"
    path = tmp_path / "really-a-png.jpg"
    ramp().save(path, "PNG")
    assert decode(path).size == (16, 12)
    assert disguise(path) == "PNG"
    assert disguise(picture(tmp_path / "honest.JPG", format="JPEG")) is None
    (tmp_path / "text.jpg").write_text("no picture")
    assert disguise(tmp_path / "text.jpg") is None


def test_cmyk_becomes_rgb_with_the_same_colours():
    decoded = decode(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95))
    red, green, blue = decoded.getpixel((4, 4))
    assert (decoded.mode, red > 200, green < 60, blue < 60) == ("RGB", True, True, True)


def test_the_first_frame_lies_on_white():
    frames = [Image.new("RGBA", (8, 8), colour) for colour in ((255, 0, 0, 0), (0, 0, 255, 255))]
    raw = encoded(frames[0], "PNG", save_all=True, append_images=frames[1:])
    assert decode(raw).getcolors() == [(64, (255, 255, 255))]


def test_floating_point_greys_are_rescaled_and_nan_is_black():
    values = np.array([[0.0, 0.5], [1.0, np.nan]], np.float32)
    decoded = np.asarray(decode(encoded(Image.fromarray(values), "TIFF")))[..., 0]
    assert decoded.tolist() == [[0, 127], [255, 0]]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_rescaled_not_clipped(kind):
    values = np.linspace(0, 65535, 16 * 12).reshape(12, 16).astype(np.uint16)
    decoded = np.asarray(decode(encoded(Image.fromarray(values), kind)), int)
    assert np.abs(decoded[..., 0] - values / 257).max() <= 1.5


@pytest.mark.parametrize(("orientation", "turns"), [(1, 0), (3, 2), (6, -1)])
def test_exif_rotation_is_applied(tmp_path, orientation, turns):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = picture(tmp_path / "a.jpg", exif=exif)
    assert np.array_equal(np.asarray(decode(path)), np.rot90(Image.open(path), turns))


@pytest.mark.parametrize(("side", "limit"), [(int(MAX_PIXELS**0.5) + 1, MAX_PIXELS), (15, 224), (15, 225)])
def test_images_over_the_limit_are_refused_and_the_size_is_said(side, limit):
    raw = png_header(side, side) if side > 15 else encoded(ramp(size=(side, side)), "PNG")
    if side**2 <= limit:
        assert decode(raw, max_pixels=limit).size == (side, side)
    else:
        with pytest.raises(ImageError, match=f"{side} x {side} pixels"):
            decode(raw, max_pixels=limit)


PEAK = """
import io, resource, sys
import numpy as np
from PIL import Image
from pcme.data.images.decoding import decode
mode = sys.argv[1]
side = 8192
image = Image.new(mode, (side, side))
stream = io.BytesIO()
exif = Image.Exif()
exif[0x0112] = 6
image.save(stream, "JPEG" if mode == "CMYK" else "PNG", exif=exif)
del image
now = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() // 1024
decode(stream.getvalue())
# not ru_maxrss, which begins with that of the process that started this one
lines = open("/proc/self/status").read().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(peak - now)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["I;16", "CMYK", "RGBA"])
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_largest_image_takes_no_more_memory_than_stated(mode):
    done = subprocess.run([sys.executable, "-c", PEAK, mode], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2**20  # kilobytes: 1 GiB


@given(st.binary(max_size=300), st.integers(0, 200))
def test_no_bytes_whatever_do_more_than_raise_an_image_error(junk, cut):
    for raw in (junk, encoded(ramp(), "PNG")[:cut] + junk, encoded(ramp(), "JPEG")[:cut] + junk):
        assert outcome(raw) == "RGB" or outcome(raw).startswith("image-")
