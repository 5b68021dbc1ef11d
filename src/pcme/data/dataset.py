"""CaptionDataset: images, captions, and which captions are true of which images.

One rule gives the ground truth of every dataset: *a caption matches every image that satisfies all it says*. A row of
`facts` is true of an image; a row of `said` holds a caption's statements, with UNSAID where it is silent. In COCO a
caption says one thing, "I was written for image 17"; in CUB, "this is a Laysan albatross"; in Aviary, up to eight
attributes. Paper: §3.1 (τ), §4.1 (CUB by class, COCO by image).
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int, Int64
from numpy.typing import ArrayLike

from pcme.core.random import numpy_stream
from pcme.data.arrays import VectorFile
from pcme.data.sources import ImageSource, Subset
from pcme.errors import DataError, ShapeError
from pcme.retrieval.matches import Matches


@dataclass(frozen=True, eq=False)
class Written:
    """New captions, and what each of them says."""

    captions: list[str]
    said: Int64[np.ndarray, "m a"]


@runtime_checkable
class CaptionWriter(Protocol):
    """Writes captions and reads what a caption says; only a drawn world can."""

    def write(self, facts: Int[np.ndarray, " a"], generator: np.random.Generator) -> str:
        """A caption drawn afresh for an image of which `facts` are true."""
        ...

    def read(self, words: Sequence[str]) -> Int64[np.ndarray, " a"]:
        """The statement of the words per attribute; UNSAID where they are silent."""
        ...

    def unmatched(self, split: "CaptionDataset", count: int, *, seed: int = 0) -> Written | None:
        """Captions that match no image of the split; None where none can be written."""
        ...


@dataclass(frozen=True)
class NamedValues:
    """Values with the names of what they stand for: class ids [n], or binary labels [n,l]."""

    values: np.ndarray
    names: tuple[str, ...]

    def picked(self, rows: Int64[np.ndarray, " k"]) -> "NamedValues":
        """These of the rows, in this order."""
        return NamedValues(self.values[rows], self.names)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class CaptionDataset:
    """One split: images, captions, and the truth about them.

    `caption_image` is the image each caption was written for; `classes` and `labels` belong to images, and a caption
    inherits its image's. `metadata` holds whatever else is known of an image. `image_vectors` and `caption_vectors`
    replace pixels and words. `readings` names further ways to judge the split (`pcme.evaluation.readings`), and
    `obstacles` those that it cannot be judged by, with the reason.

    >>> from pathlib import Path
    >>> from pcme.data.sources import Files
    >>> files = Files(Path("."), ["a.jpg", "b.jpg"])
    >>> captions = ["a wren", "a small wren", "a jay"]
    >>> dataset = CaptionDataset.by_image("toy", "test", files, captions, [0, 0, 1])
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
    classes: NamedValues | None = None
    labels: NamedValues | None = None
    metadata: Sequence[Mapping[str, object]] | None = None
    writer: CaptionWriter | None = field(default=None, repr=False)
    image_vectors: VectorFile | None = field(default=None, repr=False)
    caption_vectors: VectorFile | None = field(default=None, repr=False)
    readings: tuple[str, ...] = ()
    obstacles: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, m = len(self.images), len(self.captions)
        if not self.caption_ids:
            object.__setattr__(self, "caption_ids", _numbered(self.images, self.caption_image))
        self._require_rows("image", n, "facts", "classes", "labels", "metadata", "image_vectors")
        self._require_rows("caption", m, "caption_image", "said", "caption_ids", "caption_vectors")
        if m and not 0 <= self.caption_image.min() <= self.caption_image.max() < n:
            raise ShapeError(f"{self.where}: caption_image must be from 0 to {n - 1}.")

    def _require_rows(self, of: str, count: int, *names: str) -> None:
        for name in names:
            column = getattr(self, name)
            if column is not None and len(column) != count:
                raise ShapeError(f"{self.where}: {name} must have {count} rows, one per {of}, got {len(column)}.")

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
        classes: NamedValues | None = None,
        labels: NamedValues | None = None,
        metadata: Sequence[Mapping[str, object]] | None = None,
        image_vectors: VectorFile | None = None,
        caption_vectors: VectorFile | None = None,
    ) -> "CaptionDataset":
        """A dataset in which a caption matches the image it was written for. Paper: §4.1 (COCO)."""
        owner = np.asarray(caption_image, np.int64)
        facts = np.arange(len(images), dtype=np.int64)[:, None]
        return cls(
            name, split, images, captions, owner, facts, owner[:, None], caption_ids, classes, labels, metadata,
            image_vectors=image_vectors, caption_vectors=caption_vectors,
        )  # fmt: skip

    def matching_class(self) -> "CaptionDataset":
        """The same dataset, in which a caption matches all images of its class. Paper: §4.1 (CUB)."""
        if self.classes is None:
            raise DataError(f"{self.where}: has no classes to match by. Give each image a class, or match by image.")
        facts = np.asarray(self.classes.values, np.int64)[:, None]
        return replace(self, facts=facts, said=facts[self.caption_image], writer=None)

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
        """The class number of each image, or its own number; images of one cluster are not independent."""
        return np.arange(len(self.images)) if self.classes is None else np.asarray(self.classes.values, np.int64)

    @property
    def labelled(self) -> Bool[np.ndarray, " n"]:
        """Which images have any label; the others count in no plausible match. Paper: §C.1."""
        return np.zeros(len(self.images), np.bool_) if self.labels is None else np.asarray(self.labels.values.any(1))

    def unmatched(self, count: int, *, seed: int = 0) -> Written | None:
        """Captions that match no image of this split; None where none can be written."""
        return None if self.writer is None else self.writer.unmatched(self, count, seed=seed)

    def divided(self, share: float, *, seed: int = 0) -> tuple["CaptionDataset", "CaptionDataset"]:
        """(the rest, a random share of the images as split "val"); the same ones for one seed."""
        count = len(self.images)
        if count < 2:
            raise DataError(f"{self.where}: needs at least 2 usable images to hold one out, got {count}.")
        size = min(count - 1, max(1, round(share * count)))
        order = numpy_stream(seed, "held back").permutation(count)
        rest, val = (np.sort(part) for part in (order[size:], order[:size]))
        return self.subset(rest), self.subset(val, split="val")

    def subset(self, images: ArrayLike, *, split: str | None = None) -> "CaptionDataset":
        """These images in this order, with all of their captions; a mask or indices."""
        rows = np.arange(len(self.images))[np.asarray(images)]
        position = np.full(len(self.images), -1, np.int64)
        position[rows] = np.arange(len(rows))
        owner = position[self.caption_image]
        order = np.argsort(owner, kind="stable")
        caption_rows = order[owner[order] >= 0]
        return replace(
            self,
            split=split or self.split,
            images=Subset(self.images, rows),
            captions=tuple(self.captions[i] for i in caption_rows),
            caption_image=owner[caption_rows],
            facts=self.facts[rows],
            said=self.said[caption_rows],
            caption_ids=tuple(self.caption_ids[i] for i in caption_rows),
            classes=self.classes and self.classes.picked(rows),
            labels=self.labels and self.labels.picked(rows),
            metadata=self.metadata and [self.metadata[i] for i in rows],
            image_vectors=self.image_vectors and self.image_vectors.picked(rows),
            caption_vectors=self.caption_vectors and self.caption_vectors.picked(caption_rows),
        )

    def __repr__(self) -> str:
        return f"CaptionDataset({self.where}: {len(self.images):,} images, {len(self.captions):,} captions)"


def _numbered(images: ImageSource, owners: Int64[np.ndarray, " m"]) -> tuple[str, ...]:
    """ "a.jpg#0", "a.jpg#1": the captions of each image, counted."""
    numbers: dict[int, itertools.count[int]] = defaultdict(itertools.count)
    return tuple(f"{images.id(owner)}#{next(numbers[owner])}" for owner in owners.tolist())
