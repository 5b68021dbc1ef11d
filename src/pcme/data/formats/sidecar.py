"""Sidecar: a person's own images, each with its captions in a text file beside it.

`wren.jpg` and `wren.txt`, one caption per line. Folders may be nested. When all images lie in folders called train,
val, test ... at the top, these are the splits. Hidden files are ignored, and links to folders are not followed.
"""

import os
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

from pcme.data.dataset import CaptionDataset
from pcme.data.layout import Dataset, registry
from pcme.data.problems import Problems
from pcme.data.records import IMAGE_SUFFIXES, SPLIT_NAMES, Match, Record, assemble
from pcme.data.sources import Files
from pcme.data.text_files import filled_lines, inside, printable

_CAPTIONS = 1000  # captions of one image that are read: a longer file is something else
_PROBED = 1000  # folders read before a tree counts as one without captioned images


@registry.register("sidecar")
@dataclass(frozen=True)
class Sidecar(Dataset):
    """Your own images, each with a text file of captions beside it."""

    layout: ClassVar[str] = "images with a text file beside each, one caption per line: a.jpg, a.txt"
    rank: ClassVar[int] = 7

    root: Path
    match: Match = "image"
    classes: bool = False
    """Whether an image's folder, below its split, is its class; `match="class"` implies it."""

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """A folder with an image that has a text file beside it."""
        folders = islice(_folders(root, Problems()), _PROBED)
        return any(_stem(image) in folder.texts for folder in folders for image in folder.images)

    @property
    def splits(self) -> tuple[str, ...]:
        """The folders at the top if all images lie in such as train, val, test; else "all"."""
        tops = {folder.top for folder in _folders(self.root, Problems()) if folder.images}
        named = tuple(name for name in SPLIT_NAMES if name in tops)
        return named if named and len(named) == len(tops) else ("all",)

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split, sorted by folder and name."""
        self.checked_split(split)
        root, records = Path(self.root), self._records(split, problems)
        return assemble("sidecar", split, records, lambda names: Files(root, names), problems, match=self.match)

    def _records(self, split: str, problems: Problems) -> Iterator[Record]:
        by_folder = self.classes or self.match == "class"
        for folder in _folders(self.root, problems):
            if split in ("all", folder.top):
                class_name = folder.class_name(split) if by_folder else None
                yield from folder.records(Path(self.root), class_name, problems)
            elif folder.top not in SPLIT_NAMES:
                folder.report_orphans(problems)


@dataclass(frozen=True)
class _Folder:
    """The images and the {stem: text file} of one folder; `path` is relative, "" at the top."""

    path: str
    images: list[str]
    texts: dict[str, str]

    @property
    def top(self) -> str:
        return self.path.partition("/")[0]

    def name(self, file: str) -> str:
        return posixpath.join(self.path, file)

    def class_name(self, split: str) -> str | None:
        below = self.path if split == "all" else self.path.partition("/")[2]
        return below.rpartition("/")[2] or None

    def records(self, root: Path, class_name: str | None, problems: Problems) -> Iterator[Record]:
        owner: dict[str, str] = {}
        for image in self.images:
            name, text = self.name(image), self.texts.get(_stem(image))
            if text is not None and owner.setdefault(text, image) != image:
                problems.add("duplicate-id", name, f"{text} belongs to {owner[text]} already")
            elif (real_name := _real_name(root, name)) is None:
                problems.add("image-outside", name, f"a link that leads out of {root}")
            else:
                captions = _captions(root, self.name(text), problems) if text else []
                yield Record(real_name, captions, class_name=class_name)
        self.report_orphans(problems)

    def report_orphans(self, problems: Problems) -> None:
        for stem in sorted(self.texts.keys() - map(_stem, self.images)):
            problems.add("image-missing", self.name(self.texts[stem]), "no image of that name")


def _folders(root: Path, problems: Problems) -> Iterator[_Folder]:
    """Every folder of the tree, sorted; what cannot be listed or named is reported."""

    def unlisted(error: OSError) -> None:
        problems.add("image-unreadable", str(error.filename), f"cannot be listed: {error.strerror}")

    for path, inner, names in os.walk(root, onerror=unlisted):
        inner[:] = _visible(inner, problems)
        files = [(name, os.path.splitext(name)[1].lower()) for name in _visible(names, problems)]
        relative = Path(path).relative_to(root).as_posix()
        yield _Folder(
            "" if relative == "." else relative,
            [name for name, suffix in files if suffix in IMAGE_SUFFIXES],
            {_stem(name): name for name, suffix in files if suffix == ".txt"},
        )


def _visible(names: Iterable[str], problems: Problems) -> list[str]:
    """The names that are not hidden, sorted; one that is not UTF-8 could not be shown or stored."""
    visible = sorted(name for name in names if not name.startswith("."))
    for name in visible:
        if name != printable(name):
            problems.add("row-malformed", printable(name), "a name that is not UTF-8")
    return [name for name in visible if name == printable(name)]


def _stem(name: str) -> str:
    return os.path.splitext(name)[0]


def _real_name(root: Path, name: str) -> str | None:
    """The name of the file itself: a link may lead elsewhere, and None is outside of the folder."""
    return inside(root, name) if os.path.islink(root / name) else name


def _captions(root: Path, name: str, problems: Problems) -> list[str]:
    if _real_name(root, name) is None or not os.path.isfile(root / name):
        problems.add("row-malformed", name, "not a regular file of this folder")
        return []
    try:
        captions = list(islice(filled_lines(root / name, problems, name=name), _CAPTIONS + 1))
    except OSError as error:
        problems.add("row-malformed", name, f"cannot be read: {error.strerror}")
        return []
    if len(captions) > _CAPTIONS:
        problems.add("caption-surplus", name, f"over {_CAPTIONS:,} captions")
    return captions[:_CAPTIONS]
