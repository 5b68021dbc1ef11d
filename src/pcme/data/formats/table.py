"""Table: a person's own images, with their captions in a CSV, TSV, JSONL or Parquet file.

One row is one caption: `image` (a file name) and `caption`, or Hugging Face's `file_name` and `text`. An image may have
several rows; in JSONL and Parquet a caption may also be a list. Optional: `split`, `class`, `labels` (a list, or text
split at ; | or ,). Other columns become metadata, from an image's first row. JSONL has the columns of its first row.
"""

import difflib
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import ClassVar

from pcme.data.dataset import CaptionDataset
from pcme.data.formats.rows import Row, column_names, listed, read_rows
from pcme.data.layout import Dataset, registry
from pcme.data.problems import Problems
from pcme.data.records import Match, Record, as_captions, as_labels, as_name, assemble
from pcme.data.sources import Files
from pcme.data.text_files import inside, printable
from pcme.errors import DataError, FormatError, PcmeError

_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
_STEMS = ("captions", "metadata")
_OTHER_NAMES = {"image": ("file_name",), "caption": ("captions", "text")}
_PROBED = 100  # names that are looked for in the table's folder and in its images/


@registry.register("table")
@dataclass(frozen=True)
class Table(Dataset):
    """Your own images, captions in a CSV, TSV, JSONL or Parquet file.

    `root` is the folder or the file. Image names are relative to the folder `images`, by default the table's own or the
    images/ in it, and may not lead outside.
    """

    layout: ClassVar[str] = (
        "captions.csv, .tsv, .jsonl or .parquet with the columns image, caption[, split, class, "
        "labels]; image names are relative to the folder or to its images/"
    )
    rank: ClassVar[int] = 6

    root: Path
    images: Path | None = None
    image_column: str = "image"
    caption_column: str = "caption"
    match: Match = "image"

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """A table, or a folder with one: called captions.* or metadata.*, or with the columns."""
        if root.is_file():
            return root.suffix.lower() in _SUFFIXES
        return any(path.stem.lower() in _STEMS or _has_columns(path) for path in _tables(root))

    @property
    def splits(self) -> tuple[str, ...]:
        """Those of the column `split`, in file order; "all" without such a column."""
        path = _find_table(Path(self.root))
        if "split" not in self._columns(path):
            return ("all",)
        rows = read_rows(path, Problems(), only=["split"])
        return tuple(dict.fromkeys(name for _, row in rows if (name := as_name(row.get("split")))))

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split, images in the order of their first rows."""
        path = _find_table(Path(self.root))
        listing = _Listing(split, self._columns(path))
        for where, row in read_rows(path, problems):
            if fault := listing.add(where, row):
                problems.add("row-malformed", where, fault)
        if not listing.split_of:
            faults = problems.summary() or "it has no rows"
            raise DataError(f"{path}: lists no image, {faults}. Rows need an image and a caption.")
        if not listing.entries:
            self.checked_split(split)
        folder = self._folder(path, listing.entries)
        records = _records(listing.entries, folder, problems)
        return assemble("table", split, records, lambda names: Files(folder, names), problems, match=self.match)

    def _columns(self, path: Path) -> dict[str, str]:
        """{what it is used as: the column's name} of the columns that mean something."""
        names = column_names(path)
        required = {"image": self.image_column, "caption": self.caption_column}
        columns = {use: _column(wanted, names, path) for use, wanted in required.items()}
        return columns | {name: name for name in ("split", "class", "labels") if name in names}

    def _folder(self, path: Path, names: Iterable[str]) -> Path:
        if self.images is not None:
            return Path(self.images)
        probed = product(islice(names, _PROBED), (path.parent, path.parent / "images"))
        return next((folder for name, folder in probed if os.path.isfile(folder / name)), path.parent)


@dataclass
class _Entry:
    """The contents of the rows of one image."""

    where: str
    class_name: str | None
    metadata: Row
    captions: list[str] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)


@dataclass
class _Listing:
    """The rows of one split by image; of the other splits only which image is in which."""

    split: str
    columns: Mapping[str, str]
    entries: dict[str, _Entry] = field(default_factory=dict)
    split_of: dict[str, str] = field(default_factory=dict)

    def add(self, where: str, row: Row) -> str | None:
        """Take one row in; what is wrong with it when it cannot be."""
        name = row.get(self.columns["image"])
        if not isinstance(name, str) or not name or "\0" in name or name != printable(name):
            return f"no file name in column {self.columns['image']}"
        split = as_name(row.get("split")) if "split" in self.columns else "all"
        if split is None:
            return "no split"
        image = posixpath.normpath(name)
        first = self.split_of.setdefault(image, split)
        if first != split:
            return f'{image} is in split "{first}" already, and here in "{split}"'
        return self._add_caption(where, image, row) if split == self.split else None

    def _add_caption(self, where: str, image: str, row: Row) -> str | None:
        captions = as_captions(row.get(self.columns["caption"]))
        if captions is None:
            return f"no text in column {self.columns['caption']}"
        class_name = as_name(row.get("class"))
        metadata = {name: value for name, value in row.items() if name not in self.columns.values()}
        entry = self.entries.setdefault(image, _Entry(where, class_name, metadata))
        if class_name and entry.class_name and class_name != entry.class_name:
            return f'{image} is of class "{entry.class_name}" already, and here of "{class_name}"'
        entry.class_name = entry.class_name or class_name
        entry.captions += captions
        entry.labels |= as_labels(row.get("labels"))
        return None


def _records(entries: Mapping[str, _Entry], folder: Path, problems: Problems) -> Iterator[Record]:
    for image, entry in entries.items():
        if name := inside(folder, image):
            yield Record(name, entry.captions, (), entry.class_name, entry.labels or None, entry.metadata)
        else:
            problems.add("image-outside", image, f"{entry.where}: not below {folder}")


def _tables(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("[!.]*") if path.suffix.lower() in _SUFFIXES and path.is_file())


def _has_columns(path: Path) -> bool:
    try:
        return bool(Table(path)._columns(path))
    except (PcmeError, OSError):
        return False


def _find_table(root: Path) -> Path:
    """The table that is meant: the file itself, or the one in the folder."""
    if root.is_file() and root.suffix.lower() in _SUFFIXES:
        return root
    tables = _tables(root)
    for stem in _STEMS:
        tables = [path for path in tables if path.stem.lower() == stem] or tables
    if len(tables) == 1:
        return tables[0]
    names = listed(path.name for path in tables) or f"no {', '.join(_SUFFIXES)} file"
    raise FormatError(f"{root}: must hold one table, got {names}. Give the file itself.")


def _column(wanted: str, names: Sequence[str], path: Path) -> str:
    for name in (wanted, *_OTHER_NAMES.get(wanted, ())):
        if name in names:
            return name
    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(wanted.lower(), lower, n=1, cutoff=0.5)
    hint = f' (is it "{lower[near[0]]}"?)' if near else ""
    advice = f"Name the right one with image_column or caption_column{hint}"
    if len(names) == 1 and re.search("[;|\t]", names[0]):
        advice = "Separate the cells by commas, or by tabs in a .tsv file"
    raise FormatError(f'{path}: no column "{wanted}", it has {listed(names)}. {advice}.')
