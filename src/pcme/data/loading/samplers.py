"""Samplers: which (image, caption) pairs make the batches of an epoch.

An epoch is a function of its number and the seed, so a run can stop anywhere and go on exactly. A
pair whose caption is AFRESH asks for a new caption, which only a drawn dataset can write.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64

from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.errors import ConfigError, DataError

AFRESH = -1
"""In place of a caption's index: write a new one for this image."""

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

    Two captions of one image may meet in a batch; the batch's match matrix knows. Paper: §C.2 (COCO).
    """

    dataset: CaptionDataset
    batch_size: int
    seed: int
    afresh: bool = False
    drop_last: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= len(self._pairs):
            raise ConfigError(
                f"batch_size: must be from 1 to {len(self._pairs)}, the pairs of "
                f"{self.dataset.where}, got {self.batch_size}."
            )

    @cached_property
    def _pairs(self) -> Pairs:
        return _all_pairs(self.dataset, afresh=self.afresh)

    def __len__(self) -> int:
        whole, rest = divmod(len(self._pairs), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def epoch(self, number: int) -> Sequence[Pairs]:
        """The batches of this epoch."""
        order = numpy_stream(self.seed, "pairs", number).permutation(len(self._pairs))
        size = self.batch_size
        return [self._pairs[order[size * i : size * (i + 1)]] for i in range(len(self))]


@dataclass(frozen=True)
class OnePerClass(Sampler):
    """One pair of each class in every batch, or of `classes_per_batch` random classes.

    Each class walks through its own pairs in random order, again and again; an epoch has as many batches as would show
    every pair once if the classes were equally large. So the only positives of a batch are its diagonal. Paper: §C.2
    (CUB). Differs: the authors draw each class's pair independently, so some are never seen.
    """

    dataset: CaptionDataset
    seed: int
    classes_per_batch: int | None = None
    afresh: bool = False

    def __post_init__(self) -> None:
        if self.dataset.classes is None:
            raise DataError(f"{self.dataset.where}: has no classes to sample by. Use shuffled pairs instead.")
        known = len(self._members)
        if not 1 <= self._width(known) <= known:
            raise ConfigError(
                f"classes_per_batch: must be from 1 to {known}, the classes of "
                f"{self.dataset.where}, got {self.classes_per_batch}."
            )

    def __len__(self) -> int:
        members = self._members
        return max(1, sum(map(len, members)) // self._width(len(members)))

    def epoch(self, number: int) -> Sequence[Pairs]:
        """The batches of this epoch."""
        members = self._members
        width, steps = self._width(len(members)), len(self)
        order = numpy_stream(self.seed, "classes", number)
        chosen = _cycled(np.arange(len(members)), steps * width, order, width)
        picks = np.empty((steps * width, 2), np.int64)
        for label, pairs in enumerate(members):
            places = np.flatnonzero(chosen == label)
            walk = numpy_stream(self.seed, "class", number, label)
            picks[places] = _cycled(pairs, len(places), walk, 1)
        return list(picks.reshape(steps, width, 2))

    def _width(self, known: int) -> int:
        return known if self.classes_per_batch is None else self.classes_per_batch

    @cached_property
    def _members(self) -> list[Pairs]:
        """The pairs of each class that has any."""
        assert self.dataset.classes is not None
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

    Rounds are cut to a multiple of `width`, so that no group of `width` holds an item twice.
    """
    usable = len(items) - len(items) % width
    rounds = -(-count // usable) if count else 0
    drawn = [items[generator.permutation(len(items))[:usable]] for _ in range(rounds)]
    return np.concatenate([*drawn, items[:0]])[:count]
