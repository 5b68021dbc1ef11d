"""Records: from listed images and captions to a CaptionDataset, with the checks of all layouts."""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Literal

import numpy as np

from pcme.data.dataset import CaptionDataset, NamedValues
from pcme.data.problems import Problems
from pcme.data.sources import Files, ImageSource
from pcme.data.text_files import caption_text, printable
from pcme.errors import ConfigError, DataError

MAX_LABELS = 10_000  # distinct labels of a split: each takes a byte per image, and more of them is free text
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
SPLIT_NAMES = ("train", "val", "validation", "dev", "test")  # of folders and files, in the order splits are listed

Match = Literal["image", "class"]
"""Which images a caption matches: the one it was written for, or all of that one's class."""


@dataclass(frozen=True)
class Record:
    """One image as listed: its name, its captions, and its metadata."""

    image: str
    captions: Sequence[str]
    caption_ids: Sequence[str] = ()
    class_name: str | None = None
    labels: Iterable[str] | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


def assemble(
    name: str,
    split: str,
    records: Iterable[Record],
    source: Callable[[Sequence[str]], ImageSource],
    problems: Problems,
    *,
    captions_per_image: int | None = None,
    label_names: Sequence[str] | None = None,
    need_images: bool = True,
    match: Match = "image",
) -> CaptionDataset:
    """Build a split from records; unusable ones are left out and reported.

    `source` makes the images of these names. `captions_per_image` keeps the first so many. `need_images=False` keeps
    captions whose image is missing. Classes and labels are numbered in the order of their names, or of `label_names`.
    With `match="class"` a caption matches all images of its class, and images without one are left out.
    """
    if match not in ("image", "class"):
        raise ConfigError(f'match: must be "image" or "class", got "{match}".')
    usable = list(_usable(records, match, captions_per_image, problems))
    listed = source([record.image for record in usable])
    usable = [usable[index] for index in _present(listed, problems, need_images=need_images)]
    images = source([record.image for record in usable])
    if not usable:
        faults = problems.summary() or "no records"
        raise DataError(f"{name}/{split}: nothing that can be used, {faults}. Add the missing images and captions.")
    metadata = [record.metadata for record in usable]
    dataset = CaptionDataset.by_image(
        name,
        split,
        images,
        tuple(text for record in usable for text in record.captions),
        np.repeat(np.arange(len(usable)), [len(record.captions) for record in usable]),
        caption_ids=tuple(ident for record in usable for ident in record.caption_ids),
        classes=_classes(usable),
        labels=_labels(usable, label_names),
        metadata=metadata if any(metadata) else None,
    )
    return dataset.matching_class() if match == "class" else dataset


def as_captions(value: object) -> list[str] | None:
    """The captions in a cell or JSON value: one, or a list; None when it is something else."""
    texts: list[Any] = value if isinstance(value, list) else ["" if value is None else value]
    return texts if all(isinstance(text, str) for text in texts) else None


def as_labels(value: object) -> set[str]:
    """The labels in a cell or JSON value: a list, or text that is split at ; | and commas.

    >>> sorted(as_labels("wing; beak|tail,")), as_labels([3, None])
    (['beak', 'tail', 'wing'], {'3'})
    """
    parts = re.split("[;|,]", value) if isinstance(value, str) else value
    names = (as_name(part) for part in (parts if isinstance(parts, list) else [parts]))
    return {name for name in names if name}


def as_name(value: Any) -> str | None:  # noqa: ANN401 - a cell of a table is anything
    """A cell or JSON value as a name, or None when it is empty; 3.0 is a 3 that met a blank.

    >>> as_name(" wren "), as_name(3.0), as_name(float("nan")), as_name("")
    ('wren', '3', None, None)
    """
    if value is None or value != value:  # NaN is what a missing number becomes
        return None
    whole = isinstance(value, float) and value.is_integer()
    return printable(str(int(value) if whole else value).strip()) or None


def _usable(records: Iterable[Record], match: Match, limit: int | None, problems: Problems) -> Iterator[Record]:
    """The first record of each image, with its usable captions, at most `limit`."""
    seen: set[str] = set()
    for record in records:
        shown = printable(record.image)
        if match == "class" and record.class_name is None:
            problems.add("row-malformed", shown, "no class, and captions match by class")
        elif shown != record.image:
            problems.add("row-malformed", shown, "a name that is not UTF-8")
        elif record.image in seen:
            problems.add("duplicate-id", record.image, "listed more than once")
        else:
            seen.add(record.image)
            captions = _captions(record, problems)
            if not captions:
                problems.add("image-without-captions", record.image, "no usable caption")
                continue
            if limit is not None and len(captions) > limit:
                problems.add("caption-surplus", record.image, f"{len(captions)} captions, {limit} kept")
            ids, texts = zip(*captions[:limit], strict=True)
            yield replace(record, captions=texts, caption_ids=ids)


def _captions(record: Record, problems: Problems) -> list[tuple[str, str]]:
    """(id, text) of the captions that have words."""
    ids = record.caption_ids or [f"{record.image}#{number}" for number in range(len(record.captions))]
    texts = (caption_text(raw, f"{record.image}#{n}", problems) for n, raw in enumerate(record.captions))
    return [(ident, text) for ident, text in zip(ids, texts, strict=True) if text is not None]


def _present(images: ImageSource, problems: Problems, *, need_images: bool) -> Iterator[int]:
    """Images that can be opened; those that are missing too, unless they are needed."""
    for index in range(len(images)):
        fault = _fault(images, index)
        if fault is None or (fault[0] == "image-missing" and not need_images):
            yield index
        else:
            problems.add(fault[0], images.id(index), fault[1])


def _fault(images: ImageSource, index: int) -> tuple[str, str] | None:
    """Why an image cannot be opened, as (kind, detail): no file, or no regular one."""
    path = images.path(index)
    if path is None:
        return ("image-missing", "not there") if images.stamp(index) == "missing" else None
    name = PurePosixPath(images.id(index))
    if isinstance(images, Files) and (name.is_absolute() or ".." in name.parts):
        return "image-outside", f"not below {images.root}"
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        where = images.root if isinstance(images, Files) else path.parent
        return "image-missing", f"no file in {where}"
    # Opening a pipe or a device could wait for ever.
    return None if stat.S_ISREG(mode) else ("image-unreadable", "not a regular file")


def _classes(records: Sequence[Record]) -> NamedValues | None:
    """The class of every image, or None unless all of them have one."""
    classes = [record.class_name for record in records if record.class_name is not None]
    if len(classes) < len(records):
        return None
    names = sorted(set(classes))
    number = {name: position for position, name in enumerate(names)}
    return NamedValues(np.array([number[name] for name in classes], np.int64), tuple(names))


def _labels(records: Sequence[Record], names: Sequence[str] | None) -> NamedValues | None:
    if all(record.labels is None for record in records):
        return None
    rows = [set(record.labels or ()) for record in records]
    used = set().union(*rows)
    known = list(names) if names is not None else sorted(used)
    if strange := sorted(used.difference(known)):
        raise DataError(f"labels: are unknown, got {', '.join(strange[:3])}. Add them to the list.")
    if len(known) > MAX_LABELS:
        raise DataError(f"labels: at most {MAX_LABELS:,}, got {len(known):,}. Is it free text?")
    column = {label: position for position, label in enumerate(known)}
    values = np.zeros((len(rows), len(known)), np.bool_)
    for row, labels in zip(values, rows, strict=True):
        row[[column[label] for label in labels]] = True
    return NamedValues(values, tuple(known))
