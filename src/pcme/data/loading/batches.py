"""Batches: pixels (or cached features), tokens, and their match matrix.

Everything random in a sample comes from a stream named after (epoch, step, row of the batch), so
the order and the augmentation are the same with any number of workers, and after a restart.
Pixels stay 8-bit until the backbone normalises them: a quarter of the memory and of the traffic.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64, Shaped, UInt8
from PIL import Image
from torch import Tensor

from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.decoding import ImageError
from pcme.data.images.transforms import ImageTransform
from pcme.data.loading.prefetch import ordered
from pcme.data.loading.samplers import AFRESH, Pairs, Sampler
from pcme.data.problems import Problems
from pcme.data.sources import ImageSource
from pcme.data.text.perturbation import drop_words, erase_words
from pcme.data.text.tokens import Tokeniser, Tokens, Vocab, tokenise
from pcme.retrieval.labels import UNSAID


@runtime_checkable
class FeatureRows(Protocol):
    """Features of a dataset's images, computed before; `FeatureCache` is one."""

    def row(self, index: int) -> Tensor | None:
        """The features [s,d] of an image, or None when the image could not be used."""
        ...


@dataclass(frozen=True)
class Batch:
    """Pairs of a batch: row i of `images` goes with row i of `tokens`; `matches` has the truth.

    `images` are pixels [b,3,h,w] (8-bit) or cached features [b,s,d]; `matches[i, j]` says whether caption j is true of
    image i. `words` are the captions' words after augmentation; `step` is the batch's place in its epoch, which counts
    batches that were left out. `vectors` [b,l,d] take the place of the tokens where captions are given as vectors.
    """

    images: Shaped[Tensor, "b ..."]
    tokens: Tokens
    matches: Bool[Tensor, "b b"]
    words: tuple[tuple[str, ...], ...]
    image_index: Int64[np.ndarray, " b"]
    caption_index: Int64[np.ndarray, " b"]
    step: int
    vectors: Float32[Tensor, "b l d"] | None = None

    def __len__(self) -> int:
        return len(self.image_index)


@dataclass(frozen=True)
class Loader:
    """Makes the batches of any epoch, from any step on.

    Pairs whose image cannot be used are left out and reported to `problems`. `word_drop` is the
    ratio of the paper's caption dropping; `word_erasing` the share of captions of which any number
    of words becomes `<unk>`. With `features`, they take the place of pixels: each of them holds one
    view of every image, and a sample takes any of them. Paper: §4.1, §C.2.
    """

    dataset: CaptionDataset
    sampler: Sampler
    tokeniser: Tokeniser
    transform: ImageTransform
    seed: int
    word_drop: float = 0.0
    word_erasing: float = 0.0
    workers: int = 2
    features: Sequence[FeatureRows] = ()
    problems: Problems = field(default_factory=Problems)

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self.sampler)

    def epoch(self, number: int, *, start: int = 0) -> Iterator[Batch]:
        """The batches of epoch `number`, from step `start` on."""
        plan = list(enumerate(self.sampler.epoch(number)))[start:]
        made = ordered(lambda task: self._batch(number, *task), plan, workers=self.workers)
        return (batch for batch in made if batch is not None)

    def _batch(self, epoch: int, step: int, pairs: Pairs) -> Batch | None:
        streams = [numpy_stream(self.seed, "sample", epoch, step, place) for place in range(len(pairs))]
        images, kept = self._images(pairs[:, 0].tolist(), streams)
        if not kept:
            return None  # every image of it has been reported
        words = [self._words(pairs[place], streams[place]) for place in kept]
        return Batch(
            images,
            self.tokeniser.encode_batch(words),
            self._matches(pairs[kept], words),
            tuple(map(tuple, words)),
            pairs[kept, 0],
            pairs[kept, 1],
            step,
            self._vectors(pairs[kept, 1]),
        )

    def _images(
        self, indices: Sequence[int], streams: Sequence[np.random.Generator]
    ) -> tuple[Shaped[Tensor, "b ..."], list[int]]:
        """The pixels, or features, of the images that can be used, and their places."""
        if self.features:
            rows = [self._row(*sample) for sample in zip(indices, streams, strict=True)]
            found = [row for row in rows if row is not None]
            kept = [place for place, row in enumerate(rows) if row is not None]
            return torch.stack(found) if found else torch.empty(0), kept
        loaded = (usable(self.dataset.images, index, self.problems) for index in indices)
        return _written(self.transform, loaded, len(indices), streams)

    def _vectors(self, captions: Int64[np.ndarray, " b"]) -> Float32[Tensor, "b l d"] | None:
        stored = self.dataset.caption_vectors
        if stored is None:
            return None
        return torch.stack([stored.row(index) for index in captions.tolist()])

    def _row(self, index: int, generator: np.random.Generator) -> Tensor | None:
        views = self.features
        view = int(generator.integers(len(views))) if len(views) > 1 else 0
        if (row := views[view].row(index)) is None:
            detail = "has no features: it could not be used when they were computed"
            self.problems.add("image-unreadable", self.dataset.images.id(index), detail)
        return row

    def _words(self, pair: Int64[np.ndarray, "2"], generator: np.random.Generator) -> list[str]:
        image, caption = pair.tolist()
        if caption == AFRESH:
            assert self.dataset.writer is not None, "the sampler has made sure of it"
            text = self.dataset.writer.write(self.dataset.facts[image], generator)
        else:
            text = self.dataset.captions[caption]
        words = self.tokeniser.split(text)
        if self.word_erasing and generator.random() < self.word_erasing:
            return erase_words(words, generator, generator.random())
        return drop_words(words, generator, self.word_drop) if self.word_drop else words

    def _plain(self, words: Sequence[str]) -> Sequence[str]:
        """The words as a writer knows them, whatever the tokeniser takes for one."""
        own = isinstance(self.tokeniser, Vocab) and self.tokeniser.rule == "plain"
        return words if own else tokenise(" ".join(words))

    def _matches(self, pairs: Pairs, words: Sequence[Sequence[str]]) -> Bool[Tensor, "b b"]:
        """Match the augmented captions with the images of the batch.

        Augmentation may drop words, so where a writer can read captions (Aviary) the remaining
        words are read again; elsewhere a caption matches what it always did.
        """
        writer = self.dataset.writer
        if writer is None:
            said = self.dataset.said[pairs[:, 1]]
        else:
            said = np.stack([writer.read(sentence) for sentence in map(self._plain, words)])
        facts = self.dataset.facts[pairs[:, 0]]
        satisfied = (facts[:, None] == said[None]) | (said[None] == UNSAID)
        return torch.from_numpy(satisfied.all(-1))


def image_batches(
    images: ImageSource,
    transform: ImageTransform,
    *,
    batch_size: int,
    problems: Problems,
    workers: int = 2,
    start: int = 0,
    drawn: Callable[[int], np.random.Generator] | None = None,
) -> Iterator[tuple[Int64[np.ndarray, " b"], UInt8[Tensor, "b 3 h w"]]]:
    """(indices, pixels) of all images in order, from `start` on; unusable ones are reported.

    For evaluation, embedding and feature caches. A random transform takes `drawn(index)`, the generator of each image.
    """
    chunks = [range(first, min(first + batch_size, len(images))) for first in range(start, len(images), batch_size)]

    def made(chunk: range) -> tuple[Int64[np.ndarray, " b"], UInt8[Tensor, "b 3 h w"]]:
        loaded = (usable(images, index, problems) for index in chunk)
        streams = [None if drawn is None else drawn(index) for index in chunk]
        pixels, kept = _written(transform, loaded, len(chunk), streams)
        return np.array([chunk[place] for place in kept], np.int64), pixels

    for indices, pixels in ordered(made, chunks, workers=workers):
        if len(indices):
            yield indices, pixels


def _written(
    transform: ImageTransform,
    loaded: Iterable[Image.Image | None],
    count: int,
    streams: Sequence[np.random.Generator | None],
) -> tuple[UInt8[Tensor, "b 3 h w"], list[int]]:
    """The pixels of the images that are there, and their places among all."""
    pixels = torch.empty(count, 3, transform.size, transform.size, dtype=torch.uint8)
    kept: list[int] = []
    for place, image in enumerate(loaded):
        if image is not None:
            transform.write(pixels[len(kept)], image, streams[place])
            kept.append(place)
    return pixels[: len(kept)], kept


def usable(images: ImageSource, index: int, problems: Problems) -> Image.Image | None:
    """The image, or None after reporting why it cannot be used."""
    try:
        return images.load(index)
    except ImageError as error:
        problems.add(error.kind, images.id(index), str(error), meaning=error.meaning)
        return None
