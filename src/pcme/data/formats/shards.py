"""Shards: images and captions in WebDataset tar files, as img2dataset and `webdataset` write them.

Members with the same name up to the first dot are one sample: an image (`.jpg`, `.png` ...), its
caption in `.txt` (the whole file) or in `.json` ("caption", or a list "captions"), and optionally
`.cls`. The other keys of the JSON: "class" or "cls", "labels" and "split"; the rest is metadata.

The library names the members, but does not stream them: each tar is indexed once and read at any
place, which makes shuffling exact, runs resumable, and any number of workers see the same data.
"""

import errno
import io
import json
import math
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from jaxtyping import Int64
from PIL import Image

from pcme.data.dataset import CaptionDataset, Dataset, registry
from pcme.data.images.decoding import MAX_PIXELS, ImageError, decode
from pcme.data.problems import Problems
from pcme.data.records import (
    IMAGE_SUFFIXES,
    MAX_LINE,
    SPLIT_NAMES,
    Match,
    Record,
    as_captions,
    as_labels,
    as_name,
    assemble,
    check_match,
    decoded,
    printable,
)
from pcme.data.sources import ImageSource
from pcme.errors import ConfigError, FormatError

__all__ = ["Members", "Shards"]

MAX_MEMBER = 256 * 2**20
"""Bytes of an image in a tar; a larger one is not read."""
_MAX_SHARDS = 100_000
_MAX_HEADER = 2**15  # bytes of one tar header with its extensions; a hostile one could be the file
_PROBED = 64  # members that are looked at before a tar is said to hold no captioned image
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
_NOTES = re.compile("__[^/]*__($|/)")  # webdataset's own notes in a tar

_Parts = dict[str, tuple[int, int]]  # {extension: (offset, size)} of the members of one sample


@dataclass(frozen=True, eq=False)
class Members(ImageSource):
    """Images inside tar files, by shard, offset and size; opened for each read, so thread-safe."""

    shards: Sequence[Path]
    names: Sequence[str]
    places: Int64[np.ndarray, "n 3"]
    max_pixels: int = MAX_PIXELS

    def __len__(self) -> int:
        return len(self.names)

    def id(self, index: int) -> str:
        """The key of the sample."""
        return self.names[index]

    def load(self, index: int) -> Image.Image:
        """The decoded member."""
        return decode(self.read(index), max_pixels=self.max_pixels)

    def stamp(self, index: int) -> str:
        """Size and time of change of the tar, and the place in it; "missing" without the tar."""
        shard, offset, size = self.places[index].tolist()
        try:
            status = os.stat(self.shards[shard])
        except OSError:
            return "missing"
        return f"{status.st_size}:{status.st_mtime_ns}:{offset}:{size}"

    def read(self, index: int) -> bytes:
        """The bytes of the image as they are in the tar; an ImageError when they are not there."""
        shard, offset, size = self.places[index].tolist()
        if size > MAX_MEMBER:
            raise ImageError("image-too-large", f"{size:,} bytes, over {MAX_MEMBER:,}")
        try:
            with open(self.shards[shard], "rb") as file:
                data = _read(file, (offset, size))
        except OSError as error:
            raise ImageError("image-missing", f"{self.shards[shard]}: {error.strerror}") from error
        if len(data) < size:
            raise ImageError("image-truncated", f"{self.shards[shard]} ends within it")
        return data


@registry.register("webdataset", aliases=("shards",))
@dataclass(frozen=True)
class Shards(Dataset):
    """WebDataset tar files on this machine.

    `root` is a folder, one tar, or a pattern such as "data/shard-{000..009}.tar". Splits are the
    folders train/, val/, test/ ... or beginnings of the names when every shard has one, otherwise
    the samples' own "split", otherwise "all".
    """

    layout: ClassVar[str] = (
        "WebDataset shards, *.tar or train/*.tar, val/*.tar ..., with <key>.jpg and <key>.txt or "
        ".json in them"
    )
    rank: ClassVar[int] = 5

    root: Path
    match: Match = "image"

    def __post_init__(self) -> None:
        check_match(self.match)

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """A tar, or a folder with one that has an image and its caption among its first members."""
        if root.is_file():
            return root.name.lower().endswith((".tar", *_COMPRESSED))
        return any(_captioned(shard) for shard in islice(_tars(root), 3))

    @property
    def splits(self) -> tuple[str, ...]:
        """See the class; only splits named by the samples need the shards to be read."""
        shards = _shards(Path(self.root))
        if named := self._named(shards):
            return tuple(name for name in SPLIT_NAMES if name in named)
        first = next(_samples(shards, Problems(), limit=_PROBED), None)
        if first is None or first.split is None:
            return ("all",)
        told = (sample.split for sample in _samples(shards, Problems()))
        return tuple(dict.fromkeys(split for split in told if split is not None))

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split, in the order of the shards and of the samples in them."""
        self.checked_split(split)
        shards = _shards(Path(self.root))
        if named := self._named(shards):
            shards = [shard for shard, name in zip(shards, named, strict=True) if name == split]
        places: dict[str, tuple[int, int, int]] = {}

        def records() -> Iterator[Record]:
            for sample in _samples(shards, problems):
                if named or split in (sample.split, "all"):
                    places.setdefault(sample.record.image, sample.place)
                    yield sample.record
                elif sample.split is None:
                    problems.add("row-malformed", sample.record.image, "no split")

        def source(names: Sequence[str]) -> Members:
            where = np.array([places[name] for name in names], np.int64).reshape(-1, 3)
            return Members(tuple(shards), names, where)

        return assemble("webdataset", split, records(), source, problems, match=self.match)

    def _named(self, shards: Sequence[Path]) -> list[str]:
        """The split that each shard's name tells; none unless all of them do."""
        names = [_split_of(shard, Path(self.root)) for shard in shards]
        told = [name for name in names if name is not None]
        return told if len(told) == len(names) else []


@dataclass(frozen=True)
class _Sample:
    """One sample: its record, where its image is (shard, offset, size), and the split it names."""

    record: Record
    place: tuple[int, int, int]
    split: str | None


class _Headers(io.BufferedReader):
    """A tar as tarfile reads it: a header that claims to be huge is refused before it is read."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return super().read(size)


def _shards(root: Path) -> list[Path]:
    """The shards that are meant, sorted; a FormatError when they cannot be used."""
    if re.match(r"\w{2,}:", str(root)):
        raise FormatError(f"shards must be files on this machine - got {root} - download them")
    found = _tars(root) if root.is_dir() else [root] if root.is_file() else _expanded(str(root))
    if not found:
        raise FormatError(f"{root} holds no shards - looked for *.tar - give their folder")
    if all(path.name.lower().endswith(_COMPRESSED) for path in found):
        raise FormatError(
            f"shards must not be compressed - got {found[0].name} - images are read at any place: "
            "decompress them first, as with gunzip"
        )
    return found


def _tars(root: Path) -> list[Path]:
    folders = (root, *(root / name for name in SPLIT_NAMES))
    files = (path for folder in folders for path in folder.glob("[!.]*") if not path.is_dir())
    return sorted(path for path in files if path.name.lower().endswith((".tar", *_COMPRESSED)))


def _expanded(pattern: str) -> list[Path]:
    from braceexpand import braceexpand  # webdataset's own

    # It holds a whole range in memory before it gives the first name.
    ranges = re.findall(r"{(-?\d+)\.\.(-?\d+)", pattern)
    count = math.prod(abs(int(last) - int(first)) + 1 for first, last in ranges)
    try:
        names = braceexpand(pattern) if count < _MAX_SHARDS else ()
    except ValueError as error:
        raise ConfigError(f"not a pattern of shards - {pattern} - {error}") from error
    paths = [Path(name) for name in islice(names, _MAX_SHARDS + 1)]
    if not 0 < len(paths) <= _MAX_SHARDS:
        raise ConfigError(f"over {_MAX_SHARDS:,} shards - {pattern} - give fewer at a time")
    return paths


def _split_of(shard: Path, root: Path) -> str | None:
    """ "train" for train-000.tar, and for 000.tar in a folder train/ that is not the root."""
    prefix = re.match("[a-z]+", shard.name)
    named = (prefix.group() if prefix else "", shard.parent.name if shard.parent != root else "")
    return next((name for name in named if name in SPLIT_NAMES), None)


def _captioned(shard: Path) -> bool:
    samples = _index(shard, Problems(), limit=_PROBED).values()
    return any(_images(sample) and sample.keys() & {"txt", "json"} for sample in samples)


def _samples(
    shards: Sequence[Path], problems: Problems, *, limit: int | None = None
) -> Iterator[_Sample]:
    """The samples of all shards, from at most `limit` members of each."""
    for number, shard in enumerate(shards):
        if not (index := _index(shard, problems, limit=limit)):
            continue
        with open(shard, "rb") as file:
            for key, sample in index.items():
                images = _images(sample)
                if images:
                    record, split = _record(file, f"{shard.name}/{key}", key, sample, problems)
                    yield _Sample(record, (number, *sample[images[0]]), split)
                else:
                    problems.add("image-missing", f"{shard.name}/{key}", "a sample without image")
                for other in images[1:]:
                    problems.add("duplicate-id", f"{shard.name}/{key}.{other}", "a second image")


def _images(sample: _Parts) -> list[str]:
    return [suffix for suffix in sample if f".{suffix}" in IMAGE_SUFFIXES]


def _index(shard: Path, problems: Problems, *, limit: int | None = None) -> dict[str, _Parts]:
    """{key: {extension: (offset, size)}} of a tar, from its headers alone."""
    from webdataset.tariterators import base_plus_ext

    samples: dict[str, _Parts] = {}
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
        elif not member.isdir() and not _NOTES.match(member.name):
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
    """The kind, place and detail of what is wrong with a whole shard."""
    if isinstance(error, OSError):
        return "image-missing", str(shard), error.strerror or "cannot be read"
    with open(shard, "rb") as file:
        packed = file.read(6).startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd"))
    advice = "compressed; decompress it first" if packed else "what comes before is kept"
    return "row-malformed", str(shard), f"{error} ({advice})"


def _record(
    file: IO[bytes], where: str, key: str, sample: _Parts, problems: Problems
) -> tuple[Record, str | None]:
    """The record of a sample, and the split it names. The caption in .txt comes before JSON's."""
    facts = _facts(file, where, sample, problems)
    one, several = facts.pop("caption", None), facts.pop("captions", None)
    captions = as_captions(several or one or [])
    if "txt" in sample:
        captions = [_text(file, f"{where}.txt", sample["txt"], problems)]
    elif captions is None:
        problems.add("row-malformed", f"{where}.json", "a caption that is no text")
    class_name = as_name(facts.pop("class", None)) or as_name(facts.pop("cls", None))
    if "cls" in sample:
        class_name = as_name(_text(file, f"{where}.cls", sample["cls"], problems))
    labels, split = as_labels(facts.pop("labels", None)), as_name(facts.pop("split", None))
    return Record(key, captions or [], (), class_name, labels or None, facts), split


def _facts(file: IO[bytes], where: str, sample: _Parts, problems: Problems) -> dict[str, Any]:
    if "json" not in sample:
        return {}
    try:
        facts = json.loads(_text(file, f"{where}.json", sample["json"], problems))
        fault = "not a JSON object"
    except (ValueError, RecursionError) as error:
        facts, fault = None, f"not JSON: {error}"
    if isinstance(facts, dict):
        return facts
    problems.add("row-malformed", f"{where}.json", fault)
    return {}


def _text(file: IO[bytes], where: str, place: tuple[int, int], problems: Problems) -> str:
    """The text of a member; beyond MAX_LINE bytes it is no caption, and is cut."""
    return decoded(_read(file, (place[0], min(place[1], MAX_LINE))), where, problems)


def _read(file: IO[bytes], place: tuple[int, int]) -> bytes:
    file.seek(place[0])
    return file.read(place[1])
