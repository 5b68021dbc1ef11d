"""Tar files: indexed once by their headers and read at any place; damage is reported."""

import errno
import io
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import Int64
from PIL import Image

from pcme.data.images.decoding import ImageError, decode
from pcme.data.problems import Problems
from pcme.data.sources import NamedImages, file_stamp
from pcme.data.text_files import printable

MAX_MEMBER = 256 * 2**20  # bytes of an image in a tar; a larger one is not read
MAX_HEADER = 2**15  # bytes of one tar header with its extensions; a hostile one could be the file
NOTES = re.compile("__[^/]*__($|/)")  # webdataset's own notes in a tar
Parts = dict[str, tuple[int, int]]  # {extension: (offset, size)} of the members of one sample


@dataclass(frozen=True, eq=False)
class Members(NamedImages):
    """Images inside tar files, by shard, offset and size; opened for each read, so thread-safe."""

    shards: Sequence[Path]
    names: Sequence[str]
    locations: Int64[np.ndarray, "n 3"]

    def load(self, index: int) -> Image.Image:
        """The decoded member."""
        return decode(self.read(index))

    def stamp(self, index: int) -> str:
        """The stamp of the tar, and the place in it; "missing" without the tar."""
        shard, offset, size = self.locations[index].tolist()
        stamp = file_stamp(self.shards[shard])
        return stamp if stamp == "missing" else f"{stamp}:{offset}:{size}"

    def read(self, index: int) -> bytes:
        """The bytes of the image as they are in the tar; an ImageError when they are not there."""
        shard, offset, size = self.locations[index].tolist()
        if size > MAX_MEMBER:
            raise ImageError("image-too-large", f"{size:,} bytes, over {MAX_MEMBER:,}")
        try:
            with open(self.shards[shard], "rb") as file:
                data = read_at(file, offset, size)
        except OSError as error:
            raise ImageError("image-missing", f"{self.shards[shard]}: {error.strerror}") from error
        if len(data) < size:
            raise ImageError("image-truncated", f"{self.shards[shard]} ends within it")
        return data


class _Headers(io.BufferedReader):
    """A tar as tarfile reads it: a header that claims to be huge is refused before it is read."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return super().read(size)


def index_tar(shard: Path, problems: Problems, *, limit: int | None = None) -> dict[str, Parts]:
    """{key: {extension: (offset, size)}} of a tar, from its headers alone."""
    from webdataset.tariterators import base_plus_ext

    samples: dict[str, Parts] = {}
    for member in islice(_members(shard, problems), limit):
        key, suffix = base_plus_ext(member.name)
        if key is None:  # hidden, or without an extension: not part of a sample
            continue
        sample = samples.setdefault(key, {})
        if suffix.lower() in sample:
            problems.add("duplicate-id", f"{shard.name}/{member.name}", "twice in this shard")
        else:
            sample[suffix.lower()] = (member.offset_data, member.size)
    return samples


def _members(shard: Path, problems: Problems) -> Iterator[tarfile.TarInfo]:
    """The regular files in a tar; whatever else there is, and damage, is reported."""
    walk = _walk(shard)
    while True:
        try:
            member = next(walk, None)
        except Exception as error:  # tarfile raises nearly anything on damaged input
            problems.add(*_damage(shard, error))
            return
        if member is None:
            return
        shown = printable(f"{shard.name}/{member.name}")
        if shown != f"{shard.name}/{member.name}":
            problems.add("row-malformed", shown, "a name that is not UTF-8")
        elif member.name.startswith("/") or ".." in member.name.split("/"):
            problems.add("image-outside", shown, "a name that leads out of the shard")
        elif not member.isdir() and (not member.isreg() or member.issparse()):
            problems.add("row-malformed", shown, "a link, a device or a sparse file")
        elif not member.isdir() and not NOTES.match(member.name):
            yield member


def _walk(shard: Path) -> Iterator[tarfile.TarInfo]:
    """The members that lie within a tar, from its headers; an error where it is damaged."""
    if not shard.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such shard")
    with _Headers(io.FileIO(shard)) as file, tarfile.TarFile(fileobj=file, encoding="utf-8") as tar:
        member, last = tar.next(), -1
        while member is not None:
            # A size below zero would lead back, and round and round.
            if member.size < 0 or member.offset <= last:
                raise tarfile.ReadError(f"a wrong size at byte {member.offset:,}")
            if member.offset_data + member.size > os.fstat(file.fileno()).st_size:
                raise tarfile.ReadError(f"it ends within the member at byte {member.offset:,}")
            yield member
            last = member.offset
            file.seek(tar.offset)
            try:
                member = tarfile.TarInfo.fromtarfile(tar)  # unlike next(), keeps no list of them
            except tarfile.HeaderError:
                break
        file.seek(tar.offset)
        if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError(f"no proper end at byte {tar.offset:,}")


def _damage(shard: Path, error: Exception) -> tuple[str, str, str]:
    """The problem of a whole shard: its kind, where, and the detail."""
    if isinstance(error, OSError):
        return "image-missing", str(shard), error.strerror or "cannot be read"
    with open(shard, "rb") as file:
        packed = file.read(6).startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd"))
    advice = "compressed; decompress it first" if packed else "what comes before is kept"
    return "row-malformed", str(shard), f"{error} ({advice})"


def read_at(file: IO[bytes], offset: int, size: int) -> bytes:
    """Read `size` bytes of a file from `offset` on."""
    file.seek(offset)
    return file.read(size)
