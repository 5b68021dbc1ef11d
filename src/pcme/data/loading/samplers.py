"""Samplers: which (image, caption) pairs make the batches of an epoch.

An epoch is a function of its number and the seed, so an interrupted run resumes exactly. A pair whose caption is AFRESH
asks for a new caption, which only a drawn dataset can write.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64

from pcme.core.checks import require
from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.errors import ConfigError, DataError

AFRESH = -1
"""Replaces a caption's index: write a new caption for this image."""

Pairs = Int64[np.ndarray, "b 2"]


class Sampler(ABC):
    """Chooses the pairs of every batch."""

    @abstractmethod
    def __len__(self) -> int:
        """Batches per epoch."""

    @abstractmethod
    def epoch(self, number: int) -> Sequence[Pairs]:
        """The batches of this epoch: rows of (image, caption or AFRESH)."""


@dataclass(frozen=True)
class ShuffledPairs(Sampler):
    """Every caption once per epoch in random order, or every image once with a new caption.

    Two captions of one image may meet in a batch; the batch's match matrix knows. With more `captions_per_image` they
    meet on purpose: so many of an image's captions, as they come, follow each other; where a batch ends between them,
    the others begin the next one. Paper: §C.2 (COCO).
    """

    dataset: CaptionDataset
    batch_size: int
    seed: int
    afresh: bool = False
    drop_last: bool = False
    captions_per_image: int = 1

    def __post_init__(self) -> None:
        count, size, together = len(self._pairs), self.batch_size, self.captions_per_image
        require("batch_size", 1 <= size <= count, f"from 1 to {count}, the pairs of {self.dataset.where}", size)
        rule = f"from 1 to half of a batch of {size}, for other images to differ from"
        require("captions_per_image", together == 1 or 1 <= together <= size // 2, rule, together)

    @cached_property
    def _pairs(self) -> Pairs:
        return _all_pairs(self.dataset, afresh=self.afresh)

    def __len__(self) -> int:
        whole, rest = divmod(len(self._pairs), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def epoch(self, number: int) -> Sequence[Pairs]:
        """The batches of this epoch."""
        order = numpy_stream(self.seed, "pairs", number).permutation(len(self._pairs))
        order = order[_gathered(self._pairs[order, 0], self.captions_per_image)]
        size = self.batch_size
        return [self._pairs[order[size * i : size * (i + 1)]] for i in range(len(self))]


@dataclass(frozen=True)
class OnePerClass(Sampler):
    """One pair of each class in every batch, or of `classes_per_batch` random classes.

    So the only positives of a batch are its diagonal. Each class repeats its pairs in random orders; an epoch has as
    many batches as would show every pair once if the classes were equally large. Paper: §C.2 (CUB). Differs: the
    authors draw each class's pair independently, so some are never seen.
    """

    dataset: CaptionDataset
    seed: int
    classes_per_batch: int | None = None
    afresh: bool = False

    def __post_init__(self) -> None:
        if self.dataset.classes is None:
            raise DataError(f"{self.dataset.where}: has no classes to sample by. Use shuffled pairs instead.")
        rule = f"from 1 to {len(self._members)}, the classes of {self.dataset.where}"
        require("classes_per_batch", 1 <= self._width <= len(self._members), rule, self.classes_per_batch)

    def __len__(self) -> int:
        return max(1, sum(map(len, self._members)) // self._width)

    def epoch(self, number: int) -> Sequence[Pairs]:
        """The batches of this epoch."""
        width, count = self._width, len(self) * self._width
        generator = numpy_stream(self.seed, "classes", number)
        chosen = _cycled(np.arange(len(self._members)), count, generator, width)
        picks = np.empty((count, 2), np.int64)
        for label, pairs in enumerate(self._members):
            rows = chosen == label
            generator = numpy_stream(self.seed, "class", number, label)
            picks[rows] = _cycled(pairs, int(rows.sum()), generator, 1)
        return list(picks.reshape(-1, width, 2))

    @property
    def _width(self) -> int:
        """The pairs of a batch."""
        return len(self._members) if self.classes_per_batch is None else self.classes_per_batch

    @cached_property
    def _members(self) -> list[Pairs]:
        """The pairs of each class that has any."""
        assert self.dataset.classes is not None, "checked at the start"
        pairs = _all_pairs(self.dataset, afresh=self.afresh)
        classes = np.asarray(self.dataset.classes.values)[pairs[:, 0]]
        order = np.argsort(classes, kind="stable")
        starts = np.flatnonzero(np.diff(classes[order])) + 1
        return np.split(pairs[order], starts)


def _all_pairs(dataset: CaptionDataset, *, afresh: bool) -> Pairs:
    if not afresh:
        return np.column_stack([dataset.caption_image, np.arange(len(dataset.captions))])
    if dataset.writer is None:
        raise ConfigError(f"{dataset.where}: cannot write new captions, only a drawn one can. Use afresh=False.")
    images = np.arange(len(dataset.images))
    return np.column_stack([images, np.full_like(images, AFRESH)])


def _cycled(items: np.ndarray, count: int, generator: np.random.Generator, width: int) -> np.ndarray:
    """`count` items in random order, all used before any is used again.

    A round is cut to a multiple of `width`, so that no group of `width` holds an item twice.
    """
    size = len(items) - len(items) % width
    rounds = [items[generator.permutation(len(items))[:size]] for _ in range(0, count, size)]
    return np.concatenate([*rounds, items[:0]])[:count]


def _gathered(owners: Int64[np.ndarray, " n"], together: int) -> Int64[np.ndarray, " n"]:
    """The order in which so many items of one owner follow each other, where the first of them stood.

    >>> _gathered(np.array([7, 8, 7, 9, 7, 8]), 2)  # 7 7, 8 8, 9, 7
    array([0, 2, 1, 5, 3, 4])
    """
    by_owner = np.argsort(owners, kind="stable")
    _, starts, counts = np.unique(owners[by_owner], return_index=True, return_counts=True)
    rank = np.arange(len(owners)) - np.repeat(starts, counts)  # which item of its owner
    first = np.empty_like(by_owner)
    first[by_owner] = by_owner[np.arange(len(owners)) - rank % together]
    return np.argsort(first, kind="stable")
