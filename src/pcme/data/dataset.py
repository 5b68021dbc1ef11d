"""CaptionDataset: images, captions, and which captions are true of which images.

One rule gives the truth of every dataset: *a caption matches every image that satisfies all it
says*. What is true of an image is a row of `facts`; what a caption says is a row of `said`, with
UNSAID where it is silent. In COCO a caption says one thing, "I was written for image 17"; in CUB,
"this is a Laysan albatross"; in Aviary, up to eight attributes. Whoever needs the truth, a loss, a
metric or an analysis, asks `matches`, and nobody assumes that caption i belongs to image i.

Paper: §3.1 (τ), §4.1 (CUB by class, COCO by image).
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int, Int64
from numpy.typing import ArrayLike
from PIL import Image

from pcme.core.random import numpy_stream
from pcme.core.registry import Registry
from pcme.data.arrays import Stored
from pcme.data.images.decoding import MAX_PIXELS, decode
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, ShapeError
from pcme.retrieval.matches import UNSAID, Matches

__all__ = [
    "UNSAID",
    "CaptionDataset",
    "CaptionWriter",
    "Dataset",
    "Files",
    "ImageSource",
    "Named",
    "Remembered",
    "Subset",
    "recognised",
    "registry",
]


class ImageSource(ABC):
    """A sequence of pictures that are read, or drawn, one at a time and only when asked for."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def id(self, index: int) -> str:
        """The picture's id: unique, stable, and what an error message calls it."""

    @abstractmethod
    def load(self, index: int) -> Image.Image:
        """The picture as upright 8-bit RGB; an ImageError when it cannot be used."""

    @abstractmethod
    def stamp(self, index: int) -> str:
        """Changes whenever the picture may have changed; cheap, so the picture is not read."""

    def path(self, index: int) -> Path | None:
        """The picture's own file, where it has one."""
        return None


@dataclass(frozen=True)
class Files(ImageSource):
    """Image files below a folder, by their names relative to it."""

    root: Path
    names: Sequence[str]
    max_pixels: int = MAX_PIXELS

    def __len__(self) -> int:
        return len(self.names)

    def id(self, index: int) -> str:
        """The name relative to the folder."""
        return self.names[index]

    def load(self, index: int) -> Image.Image:
        """The decoded file."""
        return decode(self.path(index), max_pixels=self.max_pixels)

    def stamp(self, index: int) -> str:
        """Size and time of change, as `make` and `git status` do it; "missing" without a file."""
        try:
            status = os.stat(self.path(index))
        except OSError:
            return "missing"
        return f"{status.st_size}:{status.st_mtime_ns}"

    def path(self, index: int) -> Path:
        """The file."""
        return self.root / self.names[index]


@dataclass(frozen=True)
class Subset(ImageSource):
    """Some pictures of a source, in the order given."""

    source: ImageSource
    indices: Int64[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.indices)

    def id(self, index: int) -> str:
        """The id in the whole source."""
        return self.source.id(int(self.indices[index]))

    def load(self, index: int) -> Image.Image:
        """The picture."""
        return self.source.load(int(self.indices[index]))

    def stamp(self, index: int) -> str:
        """The stamp in the whole source."""
        return self.source.stamp(int(self.indices[index]))

    def path(self, index: int) -> Path | None:
        """The picture's own file, where it has one."""
        return self.source.path(int(self.indices[index]))


class Remembered(ImageSource):
    """A source whose pictures are read, or drawn, once: kept in memory up to `limit` bytes.

    Safe in threads: two that ask for the same picture at once may both read it, no more.
    """

    def __init__(self, source: ImageSource, *, limit: int = 512 * 2**20) -> None:
        self.source, self.limit = source, limit
        self._kept: dict[int, Image.Image] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self.source)

    def id(self, index: int) -> str:
        """The id in the source."""
        return self.source.id(index)

    def load(self, index: int) -> Image.Image:
        """The picture; whoever changes it changes it for all."""
        kept = self._kept.get(index)
        if kept is not None:
            return kept
        image = self.source.load(index)
        size = 4 * image.width * image.height  # Pillow keeps four bytes a pixel
        if self._bytes + size <= self.limit:
            self._bytes += size
            self._kept[index] = image
        return image

    def stamp(self, index: int) -> str:
        """The stamp in the source."""
        return self.source.stamp(index)

    def path(self, index: int) -> Path | None:
        """The picture's own file, where it has one."""
        return self.source.path(index)


@runtime_checkable
class CaptionWriter(Protocol):
    """Writes new captions for an image and reads what a caption says; only a drawn world can."""

    def write(self, facts: Int[np.ndarray, " a"], generator: np.random.Generator) -> str:
        """A caption drawn afresh for an image of which `facts` are true."""
        ...

    def read(self, words: Sequence[str]) -> Int64[np.ndarray, " a"]:
        """What the words say, attribute by attribute; UNSAID where they are silent."""
        ...


@dataclass(frozen=True)
class Named:
    """Values with the names of what they stand for: class ids [n], or binary labels [n,l]."""

    values: np.ndarray
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CaptionDataset:
    """One split: images, captions, and the truth about them.

    `caption_image` is the image each caption was written for; `classes` and `labels` belong to
    images, and a caption inherits its image's. `metadata` holds whatever else is known of an image.
    `image_vectors` and `caption_vectors` take the place of pixels and words where they are given.

    >>> dataset = CaptionDataset.by_image("toy", "test", Files(Path("."), ["a.jpg", "b.jpg"]),
    ...                                   ["a wren", "a small wren", "a jay"], [0, 0, 1])
    >>> dataset
    CaptionDataset(toy/test: 2 images, 3 captions)
    >>> dataset.matches()
    Matches(3 queries, 2 gallery items, 3 pairs)
    >>> dataset.subset([1]).captions
    ('a jay',)
    """

    name: str
    split: str
    images: ImageSource
    captions: Sequence[str]
    caption_image: Int64[np.ndarray, " m"]
    facts: Int64[np.ndarray, "n a"]
    said: Int64[np.ndarray, "m a"]
    caption_ids: Sequence[str] = ()
    classes: Named | None = None
    labels: Named | None = None
    metadata: Sequence[Mapping[str, object]] | None = None
    writer: CaptionWriter | None = field(default=None, repr=False)
    image_vectors: Stored | None = field(default=None, repr=False)
    caption_vectors: Stored | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.caption_ids:
            numbered = _numbered(self.images, self.caption_image)
            object.__setattr__(self, "caption_ids", numbered)
        n, m = len(self.images), len(self.captions)
        _check_rows(self.where, "images", n, facts=self.facts, classes=self.classes)
        _check_rows(self.where, "images", n, labels=self.labels, metadata=self.metadata)
        _check_rows(self.where, "captions", m, caption_image=self.caption_image, said=self.said)
        _check_rows(self.where, "captions", m, caption_ids=self.caption_ids)
        _check_rows(self.where, "images", n, image_vectors=self.image_vectors)
        _check_rows(self.where, "captions", m, caption_vectors=self.caption_vectors)
        if m and not 0 <= self.caption_image.min() <= self.caption_image.max() < n:
            raise ShapeError(f"{self.where}: caption_image must be from 0 to {n - 1}")

    @classmethod
    def by_image(
        cls,
        name: str,
        split: str,
        images: ImageSource,
        captions: Sequence[str],
        caption_image: ArrayLike,
        *,
        caption_ids: Sequence[str] = (),
        classes: Named | None = None,
        labels: Named | None = None,
        metadata: Sequence[Mapping[str, object]] | None = None,
        image_vectors: Stored | None = None,
        caption_vectors: Stored | None = None,
    ) -> "CaptionDataset":
        """A dataset in which a caption matches the image it was written for. Paper: §4.1 (COCO)."""
        owner = np.asarray(caption_image, np.int64)
        facts = np.arange(len(images), dtype=np.int64)[:, None]
        return cls(
            name, split, images, captions, owner, facts, owner[:, None],
            caption_ids, classes, labels, metadata,
            image_vectors=image_vectors, caption_vectors=caption_vectors,
        )  # fmt: skip

    def matching_class(self) -> "CaptionDataset":
        """The same dataset, in which a caption matches all images of its class. Paper: §4.1 (CUB).

        Needs `classes`.
        """
        if self.classes is None:
            raise DataError(
                f"{self.where} has no classes to match by - give each image a class, or match by "
                "image"
            )
        facts = np.asarray(self.classes.values, np.int64)[:, None]
        return replace(self, facts=facts, said=facts[self.caption_image])

    @property
    def where(self) -> str:
        """The dataset and the split, as in "cub/test"."""
        return f"{self.name}/{self.split}"

    def matches(self) -> Matches:
        """τ with captions as queries and images as gallery (t2i); `.T` is i2t."""
        return Matches.from_facts(self.said, self.facts)

    def multiplicity(self) -> Int64[np.ndarray, " m"]:
        """|τ(c)|: how many images of this split each caption matches."""
        return self.matches().counts

    @property
    def clusters(self) -> Int64[np.ndarray, " n"]:
        """The class number of each image; its own number where there are no classes.

        Images of one cluster are not independent, nor are the captions written for them.
        """
        if self.classes is None:
            return np.arange(len(self.images))
        return np.asarray(self.classes.values, np.int64)

    @property
    def labelled(self) -> Bool[np.ndarray, " n"]:
        """Which images have any label; the others count in no plausible match. Paper: §C.1."""
        if self.labels is None:
            return np.zeros(len(self.images), np.bool_)
        return np.asarray(self.labels.values.any(1))

    def divided(self, share: float, *, seed: int = 0) -> tuple["CaptionDataset", "CaptionDataset"]:
        """(the rest, a random share of the images as split "val"); the same ones for one seed."""
        count = len(self.images)
        if count < 2:
            raise DataError(
                f"{self.where} has {count} usable images - one to train on and one to validate "
                "with are the least"
            )
        held = min(count - 1, max(1, round(share * count)))
        order = numpy_stream(seed, "held back").permutation(count)
        rest, val = (np.sort(part) for part in (order[held:], order[:held]))
        return self.subset(rest), self.subset(val, split="val")

    def subset(self, images: ArrayLike, *, split: str | None = None) -> "CaptionDataset":
        """These images in this order, with all of their captions; a mask or indices."""
        picked = np.arange(len(self.images))[np.asarray(images)]
        position = np.full(len(self.images), -1, np.int64)
        position[picked] = np.arange(len(picked))
        owner = position[self.caption_image]
        order = np.argsort(owner, kind="stable")
        kept = order[owner[order] >= 0]
        return replace(
            self,
            split=split or self.split,
            images=Subset(self.images, picked),
            captions=tuple(self.captions[i] for i in kept),
            caption_image=owner[kept],
            facts=self.facts[picked],
            said=self.said[kept],
            caption_ids=tuple(self.caption_ids[i] for i in kept),
            classes=_picked(self.classes, picked),
            labels=_picked(self.labels, picked),
            metadata=self.metadata and [self.metadata[i] for i in picked],
            image_vectors=self.image_vectors and self.image_vectors.picked(picked),
            caption_vectors=self.caption_vectors and self.caption_vectors.picked(kept),
        )

    def folds(self, count: int) -> list["CaptionDataset"]:
        """Equal runs of images in file order, e.g. COCO 1K: five folds of the 5,000 test images.

        Images beyond a multiple of `count` are in no fold, as in the protocol. Paper: §4.1.
        """
        size = len(self.images) // count
        if count < 1 or size == 0:
            raise ConfigError(
                f"{self.where}: cannot cut {len(self.images)} images in {count} folds"
            )
        starts = range(0, size * count, size)
        return [
            self.subset(np.arange(start, start + size), split=f"{self.split}:{number}")
            for number, start in enumerate(starts, start=1)
        ]

    def __repr__(self) -> str:
        counts = f"{len(self.images):,} images, {len(self.captions):,} captions"
        return f"CaptionDataset({self.where}: {counts})"


@dataclass(frozen=True)
class Dataset(ABC):
    """A dataset as a user names it: a frozen dataclass whose fields are its parameters.

    A new one is one class in one file of `pcme/data/`, under `@registry.register(name)`. Datasets
    that lie on disk have a field `root`.
    """

    layout: ClassVar[str] = ""
    """What the folder must hold, in one line; "" for a dataset that needs none."""
    expected: ClassVar[Mapping[str, int]] = MappingProxyType({})
    """Images of each split in the whole published dataset, where that is known."""
    rank: ClassVar[int] = 0
    """Layouts are tried from the lowest rank up: the general ones have the higher ranks."""

    @property
    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """The names of the splits that can be loaded here."""

    @abstractmethod
    def load(self, split: str, problems: Problems | None = None) -> CaptionDataset:
        """One split; what cannot be used is left out and reported to `problems`."""

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """Whether a folder, or file, has this dataset's layout."""
        return False

    def with_missing(self) -> "Dataset":
        """The same dataset, images that are not there included, where it can be read so.

        For looking at what is listed: a missing image becomes an ImageError when it is loaded.
        """
        return self

    def checked_split(self, split: str) -> str:
        """`split`, or a ConfigError that names the splits there are, or the files there must be."""
        splits, kind = self.splits, type(self).__name__
        if not splits:
            raise ConfigError(
                f'no split "{split}" - {getattr(self, "root", kind)} has none of the files of '
                f"{kind} - it must hold {self.layout}"
            )
        if split not in splits:
            raise ConfigError(f'no split "{split}" - {kind} has: {", ".join(splits)}')
        return split


registry: Registry[Dataset] = Registry("dataset", "pcme.data.formats", "pcme.data.aviary")


def recognised(path: Path, **params: object) -> Dataset:
    """The dataset that lies in a folder, or file, recognised by its layout."""
    names = registry.names()
    for name in sorted(names, key=lambda name: (registry.get(name).rank, name)):
        cls = registry.get(name)
        if cls.layout and cls.recognises(path):
            return registry.create(name, **{**params, "root": path})
    layouts = "\n".join(
        f"  {name}: {registry.get(name).layout}" for name in names if registry.get(name).layout
    )
    raise ConfigError(f"{path} has no layout known here. Known layouts:\n{layouts}")


def _numbered(images: ImageSource, owners: Int64[np.ndarray, " m"]) -> tuple[str, ...]:
    """ "a.jpg#0", "a.jpg#1": the captions of each image, counted."""
    seen: dict[int, int] = {}
    ids = []
    for owner in owners.tolist():
        number = seen.get(owner, 0)
        seen[owner] = number + 1
        ids.append(f"{images.id(owner)}#{number}")
    return tuple(ids)


def _picked(named: Named | None, rows: Int64[np.ndarray, " k"]) -> Named | None:
    return named and Named(named.values[rows], named.names)


def _check_rows(where: str, of: str, count: int, **columns: object) -> None:
    for name, column in columns.items():
        values = column.values if isinstance(column, Named) else column
        if values is not None and len(values) != count:  # type: ignore[arg-type]
            raise ShapeError(
                f"{where}: {name} must have one row for each of the {count} {of} - got "
                f"{len(values)}"  # type: ignore[arg-type]
            )
