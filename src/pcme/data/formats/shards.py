"""Shards: images and captions in WebDataset tar files, as img2dataset and `webdataset` write them.

Members with the same name up to the first dot are one sample: an image (`.jpg`, `.png` ...), its caption in `.txt` (the
whole file) or in `.json` ("caption", or a list "captions"), and optionally `.cls`. The JSON may also have "class" or
"cls", "labels" and "split"; its other keys are metadata. Each tar is indexed once and read at random, not streamed:
shuffling is exact, runs can resume, and any number of workers see the same data.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, ClassVar

import numpy as np

from pcme.data.dataset import CaptionDataset
from pcme.data.formats.tars import Members, Parts, index_tar, read_at
from pcme.data.layout import Dataset, registry
from pcme.data.problems import Problems
from pcme.data.records import IMAGE_SUFFIXES, SPLIT_NAMES, Match, Record, as_captions, as_labels, as_name, assemble
from pcme.data.text_files import MAX_LINE, decoded, json_object
from pcme.errors import ConfigError, FormatError

_MAX_SHARDS = 100_000
_PROBED = 64  # members read before a tar counts as one without captioned images
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")


@registry.register("webdataset", aliases=("shards",))
@dataclass(frozen=True)
class Shards(Dataset):
    """WebDataset tar files on this machine.

    `root` is a folder, one tar, or a pattern such as "data/shard-{000..009}.tar". Splits are the folders train/, val/,
    test/ ... or beginnings of the names when every shard has one, otherwise the samples' own "split", otherwise "all".
    """

    layout: ClassVar[str] = (
        "WebDataset shards, *.tar or train/*.tar, val/*.tar ..., with <key>.jpg and <key>.txt or .json in them"
    )
    rank: ClassVar[int] = 5

    root: Path
    match: Match = "image"

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """A tar, or a folder with one that has an image and its caption among its first members."""
        if root.is_file():
            return root.name.lower().endswith((".tar", *_COMPRESSED))
        return any(_captioned(shard) for shard in islice(_tars(root), 3))

    @property
    def splits(self) -> tuple[str, ...]:
        """See the class; only splits named by the samples need the shards to be read."""
        shards = _find_shards(Path(self.root))
        if named := self._named(shards):
            return tuple(name for name in SPLIT_NAMES if name in named)
        first = next(_samples(shards, Problems(), limit=_PROBED), None)
        if first is None or first.split is None:
            return ("all",)
        return tuple(dict.fromkeys(sample.split for sample in _samples(shards, Problems()) if sample.split))

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split, in the order of the shards and of the samples in them."""
        self.checked_split(split)
        shards = _find_shards(Path(self.root))
        if named := self._named(shards):
            shards = [shard for shard, name in zip(shards, named, strict=True) if name == split]
        locations: dict[str, tuple[int, int, int]] = {}

        def records() -> Iterator[Record]:
            for sample in _samples(shards, problems):
                if named or split in (sample.split, "all"):
                    locations.setdefault(sample.record.image, sample.location)
                    yield sample.record
                elif sample.split is None:
                    problems.add("row-malformed", sample.record.image, "no split")

        def source(names: Sequence[str]) -> Members:
            rows = np.array([locations[name] for name in names], np.int64).reshape(-1, 3)
            return Members(tuple(shards), names, rows)

        return assemble("webdataset", split, records(), source, problems, match=self.match)

    def _named(self, shards: Sequence[Path]) -> list[str]:
        """The split that each shard's name tells; none unless all of them do."""
        names = [_split_of(shard, Path(self.root)) for shard in shards]
        return names if all(names) else []


@dataclass(frozen=True)
class _Sample:
    """One sample: its record, where its image is (shard, offset, size), and the split it names."""

    record: Record
    location: tuple[int, int, int]
    split: str | None


def _find_shards(root: Path) -> list[Path]:
    """The shards that are meant, sorted; a FormatError when they cannot be used."""
    if re.match(r"\w{2,}:", str(root)):
        raise FormatError(f"shards: must be files on this machine, got {root}. Download them.")
    shards = _tars(root) if root.is_dir() else [root] if root.is_file() else _expand(str(root))
    if not shards:
        raise FormatError(f"{root}: holds no shards (*.tar). Give their folder.")
    if all(path.name.lower().endswith(_COMPRESSED) for path in shards):
        raise FormatError(f"shards: must not be compressed, got {shards[0].name}. First decompress them with gunzip.")
    return shards


def _tars(root: Path) -> list[Path]:
    folders = (root, *(root / name for name in SPLIT_NAMES))
    files = (path for folder in folders for path in folder.glob("[!.]*") if not path.is_dir())
    return sorted(path for path in files if path.name.lower().endswith((".tar", *_COMPRESSED)))


def _expand(pattern: str) -> list[Path]:
    from braceexpand import braceexpand  # webdataset's own

    # It holds a whole range in memory before it gives the first name.
    ranges = re.findall(r"{(-?\d+)\.\.(-?\d+)", pattern)
    count = math.prod(abs(int(last) - int(first)) + 1 for first, last in ranges)
    try:
        names = braceexpand(pattern) if count < _MAX_SHARDS else ()
    except ValueError as error:
        raise ConfigError(f"{pattern}: not a pattern of shards, {error}.") from error
    paths = [Path(name) for name in islice(names, _MAX_SHARDS + 1)]
    if not 0 < len(paths) <= _MAX_SHARDS:
        raise ConfigError(f"{pattern}: over {_MAX_SHARDS:,} shards. Give fewer at a time.")
    return paths


def _split_of(shard: Path, root: Path) -> str:
    """ "train" for train-000.tar, and for 000.tar in a folder train/ that is not the root; "" for others."""
    names = (re.split("[^a-z]", shard.name, maxsplit=1)[0], shard.parent.name if shard.parent != root else "")
    return next((name for name in names if name in SPLIT_NAMES), "")


def _captioned(shard: Path) -> bool:
    samples = index_tar(shard, Problems(), limit=_PROBED).values()
    return any(_images(sample) and sample.keys() & {"txt", "json"} for sample in samples)


def _samples(shards: Sequence[Path], problems: Problems, *, limit: int | None = None) -> Iterator[_Sample]:
    """The samples of all shards, from at most `limit` members of each."""
    for number, shard in enumerate(shards):
        if not (index := index_tar(shard, problems, limit=limit)):
            continue
        with open(shard, "rb") as file:
            for key, sample in index.items():
                where, images = f"{shard.name}/{key}", _images(sample)
                if images:
                    record, split = _record(file, where, key, sample, problems)
                    yield _Sample(record, (number, *sample[images[0]]), split)
                else:
                    problems.add("image-missing", where, "a sample without image")
                for other in images[1:]:
                    problems.add("duplicate-id", f"{where}.{other}", "a second image")


def _images(sample: Parts) -> list[str]:
    return [suffix for suffix in sample if f".{suffix}" in IMAGE_SUFFIXES]


def _record(file: IO[bytes], where: str, key: str, sample: Parts, problems: Problems) -> tuple[Record, str | None]:
    """The record of a sample, and the split it names. The caption in .txt comes before JSON's."""

    def text(suffix: str) -> str:
        """The text of a member; beyond MAX_LINE bytes it is no caption, and is cut."""
        offset, size = sample[suffix]
        return decoded(read_at(file, offset, min(size, MAX_LINE)), f"{where}.{suffix}", problems)

    facts = (json_object(text("json"), f"{where}.json", problems) if "json" in sample else None) or {}
    caption, several = facts.pop("caption", None), facts.pop("captions", None)
    captions = as_captions(several or caption or [])
    if "txt" in sample:
        captions = [text("txt")]
    elif captions is None:
        problems.add("row-malformed", f"{where}.json", "a caption that is no text")
    class_name = as_name(facts.pop("class", None)) or as_name(facts.pop("cls", None))
    if "cls" in sample:
        class_name = as_name(text("cls"))
    labels, split = as_labels(facts.pop("labels", None)), as_name(facts.pop("split", None))
    return Record(key, captions or [], (), class_name, labels or None, facts), split
