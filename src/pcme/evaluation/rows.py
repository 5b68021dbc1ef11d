"""Rows of files that others made, brought into the order of a split: as they stand, or by name.

Without names a file has one row per image, or per caption, in the order of the split. With names its rows may have any
order, and there may be more of them than the split has.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
from jaxtyping import Int64

from pcme.data.dataset import CaptionDataset
from pcme.errors import DataError
from pcme.evaluation.embedding_files import Kind

Order = Int64[np.ndarray, " _"] | None
"""The row of each item of the split; None where they stand in its order."""
Spelling = Callable[[str], str]

SPELLINGS: tuple[Spelling, ...] = (str, lambda name: PurePosixPath(name).name, lambda name: PurePosixPath(name).stem)
"""Names that may stand for an id: itself, without folders, and without its ending."""


@dataclass(frozen=True)
class Side:
    """The images or the captions of a file: how many rows, and their ids where they have any."""

    where: str
    kind: Kind
    rows: int
    ids: Sequence[str] | None = None

    def named(self, path: Path) -> "Side":
        """The same rows with the ids in a text file, one per line."""
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read as text, {error}. Write one id per line.") from error
        ids = [line.strip() for line in (lines if lines[-1] else lines[:-1])]
        if len(ids) != self.rows:
            raise DataError(
                f"{path}: must have a line per row of {self.where} ({self.rows:,}), got {len(ids):,}. Write one id per "
                "line, in the order of the rows."
            )
        return replace(self, ids=ids)


def in_order(images: Side, captions: Side, split: CaptionDataset) -> tuple[Order, Order]:
    """The rows of the split's images and captions; an error that says which are missing, or how the counts differ."""
    sides = (images, len(split.images)), (captions, len(split.captions))
    if any(side.ids is None and side.rows != count for side, count in sides):
        raise DataError(_miscounted(images, captions, split))
    first, second = (None if side.ids is None else _by_name(side, side.ids, split) for side, _ in sides)
    return first, second


def surplus(images: Side, captions: Side, split: CaptionDataset) -> list[str]:
    """Remarks on rows that the split does not have."""
    sides = (images, len(split.images)), (captions, len(split.captions))
    return [
        f"{side.where}: {side.rows - count:,} of its {side.rows:,} {side.kind}s are not of {split.where}"
        for side, count in sides
        if side.rows > count
    ]


def _miscounted(images: Side, captions: Side, split: CaptionDataset) -> str:
    """How the counts differ, and what that usually means."""
    wanted, given = (len(split.images), len(split.captions)), (images.rows, captions.rows)
    asked = f"must have {wanted[0]:,} images and {wanted[1]:,} captions, those of {split.where}"
    where = images.where if images.where == captions.where else f"{images.where} and {captions.where}"
    return f"{where}: {asked}, got {given[0]:,} and {given[1]:,}. {_remedy(wanted, given, split)}"


def _remedy(wanted: tuple[int, int], given: tuple[int, int], split: CaptionDataset) -> str:
    per_image = np.bincount(split.caption_image, minlength=wanted[0])
    if given == wanted[::-1]:
        return "Images and captions look exchanged: images come first, in a matrix as its rows."
    if given[0] == wanted[1]:
        equal, step = per_image.min() == per_image.max(), per_image[0]
        kept = f"one row in {step} ([::{step}])" if equal else "the row of the first caption of each"
        return f"Images look repeated, once per caption: keep {kept}."
    if given[0] == wanted[0] and given[1] > wanted[1]:
        return f"Some captions do not count ({per_image.max()} of an image at the most): name the rows with --ids."
    return "Give their rows in the order of the split, or name them with --ids."


def _by_name(side: Side, ids: Sequence[str], split: CaptionDataset) -> Int64[np.ndarray, " n"]:
    """The row of each item of the split by its name."""
    known, given = _spelled(side, ids, split)
    counts = Counter(given)
    if twice := [name for name in known if counts[name] > 1]:
        raise DataError(
            f'{side.where}: ids must be distinct, got "{twice[0]}" {counts[twice[0]]:,} times ({len(twice):,} of the '
            f"{len(known):,} {side.kind}s are repeated). Keep one row of each."
        )
    row_of = {name: row for row, name in enumerate(given)}
    absent = [name for name in known if name not in row_of]
    if absent:
        raise DataError(
            f"{side.where}: lacks {len(absent):,} of the {len(known):,} {side.kind}s of {split.where}, such as "
            f'"{absent[0]}"; its ids are like "{given[0]}". Add their rows, or give the ids of the split.'
        )
    return np.array([row_of[name] for name in known], np.int64)


def _spelled(side: Side, ids: Sequence[str], split: CaptionDataset) -> tuple[list[str], list[str]]:
    """The names of the split's items and of the rows, in the spelling that tells most of the items."""
    names = _names(split, side.kind)
    spelled = [([spell(name) for name in names], [spell(name) for name in ids]) for spell in SPELLINGS]
    if side.kind == "image" and split.metadata is not None:
        spelled.append(([str(entry.get("coco_id")) for entry in split.metadata], list(ids)))
    distinct = [pair for pair in spelled if len({*pair[0]}) == len(names)]
    return max(distinct, key=lambda pair: len({*pair[0]} & {*pair[1]}), default=spelled[0])


def _names(split: CaptionDataset, kind: Kind) -> list[str]:
    if kind == "caption":
        return list(split.caption_ids)
    return [split.images.id(index) for index in range(len(split.images))]
