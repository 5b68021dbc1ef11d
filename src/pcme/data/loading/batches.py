"""Batches: pixels (or cached features), tokens, and their match matrix.

The randomness of a sample comes from a stream named after (epoch, step, row of the batch), so order and augmentation
are the same with any number of workers, and after a restart. Pixels stay 8-bit until the backbone normalises them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64, Shaped, UInt8
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.decoding import ImageError
from pcme.data.images.transforms import ImageTransform
from pcme.data.loading.prefetch import ordered
from pcme.data.loading.samplers import AFRESH, Pairs, Sampler
from pcme.data.problems import Problems
from pcme.data.sources import ImageSource
from pcme.data.text.perturbation import WordAugmentation
from pcme.data.text.tokens import Tokeniser, Tokens, Vocab, tokenise
from pcme.retrieval.labels import UNSAID


@runtime_checkable
class FeatureRows(Protocol):
    """Precomputed features of a dataset's images; `FeatureCache` is one."""

    def row(self, index: int) -> Tensor | None:
        """The features [s,d] of an image; None when the image could not be used."""
        ...


@runtime_checkable
class StateRows(Protocol):
    """What a text tower makes of one draw of every caption; `CaptionStates` is one."""

    def row(self, index: int) -> Tensor:
        """The states [l,d] of a caption's tokens."""
        ...


@dataclass(frozen=True)
class Batch:
    """Pairs of a batch: row i of `images` goes with row i of `tokens`; `matches` has the truth.

    `images` are pixels [b,3,h,w] (8-bit) or cached features [b,s,d]; `matches[i, j]` says whether caption j is true of
    image i. `words` are the captions' words after augmentation; `step` is the index of the batch in its epoch, which
    counts batches that were left out. `vectors` [b,l,d] replace the tokens where captions are given as vectors.
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

    def pinned(self) -> "Batch":
        """The same in memory that a GPU reads while the processor goes on."""
        states = tuple(each.pin_memory() for each in self.tokens.states)
        tokens = replace(self.tokens, ids=self.tokens.ids.pin_memory(), states=states)
        vectors = None if self.vectors is None else self.vectors.pin_memory()
        images, matches = self.images.pin_memory(), self.matches.pin_memory()
        return replace(self, images=images, tokens=tokens, matches=matches, vectors=vectors)


@dataclass(frozen=True)
class Loader:
    """Makes the batches of any epoch, from any step on.

    Pairs whose image cannot be used are left out and reported to `problems`. `word_drop` is the ratio of the paper's
    caption dropping; `word_erasing` the share of captions of which any number of words becomes `<unk>`. `features`
    replace the pixels: each holds one view of every image, and a sample takes any of them. `states` hold what each text
    tower makes of one view of every caption; the words are then those of the view. Paper: §4.1, §C.2.
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
    states: Sequence[Sequence[StateRows]] = ()
    problems: Problems = field(default_factory=Problems)
    pinned: bool = False

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self.sampler)

    def epoch(self, number: int, *, start: int = 0) -> Iterator[Batch]:
        """The batches of epoch `number`, from step `start` on."""
        plan = list(enumerate(self.sampler.epoch(number)))[start:]
        batches = ordered(lambda task: self._batch(number, *task), plan, workers=self.workers)
        return (batch for batch in batches if batch is not None)

    def _batch(self, epoch: int, step: int, pairs: Pairs) -> Batch | None:
        streams = [numpy_stream(self.seed, "sample", epoch, step, row) for row in range(len(pairs))]
        if self.features:
            images, rows = self._feature_rows(pairs[:, 0].tolist(), streams)
        else:
            images, rows = _load(self.dataset.images, pairs[:, 0].tolist(), self.transform, streams, self.problems)
        if not rows:
            return None  # each of its images has been reported
        drawn = [self._words(pairs[row], streams[row]) for row in rows]
        words = [sentence for sentence, _ in drawn]
        image_index, caption_index = pairs[rows].T
        tokens = self.tokeniser.encode_batch(words)
        if self.states:
            tokens = replace(tokens, states=self._state_rows(caption_index.tolist(), [view for _, view in drawn]))
        stored = self.dataset.caption_vectors
        batch = Batch(
            images,
            tokens,
            self._matches(pairs[rows], words),
            tuple(map(tuple, words)),
            image_index,
            caption_index,
            step,
            None if stored is None else torch.stack([stored.row(caption) for caption in caption_index.tolist()]),
        )
        return batch.pinned() if self.pinned else batch

    def _feature_rows(
        self, indices: Sequence[int], streams: Sequence[np.random.Generator]
    ) -> tuple[Float[Tensor, "b ..."], list[int]]:
        """The features of the images that have any, and their rows in the batch."""
        features, rows, views = [], [], self.features
        for row, (index, generator) in enumerate(zip(indices, streams, strict=True)):
            view = int(generator.integers(len(views))) if len(views) > 1 else 0
            if (values := views[view].row(index)) is None:
                detail = "has no features: it could not be used when they were computed"
                self.problems.add("image-unreadable", self.dataset.images.id(index), detail)
            else:
                features.append(values)
                rows.append(row)
        return torch.stack(features) if features else torch.empty(0), rows

    def _words(self, pair: Int64[np.ndarray, "2"], generator: np.random.Generator) -> tuple[list[str], int]:
        """The words of a pair's caption after augmentation, and the number of the view that they are of."""
        image, caption = pair.tolist()
        if caption == AFRESH:
            assert self.dataset.writer is not None, "checked by the sampler"
            text = self.dataset.writer.write(self.dataset.facts[image], generator)
        else:
            text = self.dataset.captions[caption]
        words, augmentation = self.tokeniser.split(text), WordAugmentation(self.word_drop, self.word_erasing)
        if not self.states:
            return augmentation.apply(words, generator), 0
        view = int(generator.integers(len(self.states))) if len(self.states) > 1 else 0
        return augmentation.view(words, view, caption), view

    def _state_rows(self, captions: Sequence[int], views: Sequence[int]) -> tuple[Float[Tensor, "b _ _"], ...]:
        """The states of captions in these views by each text tower, padded to the longest."""
        rows = [
            [tower.row(caption) for tower in self.states[view]] for caption, view in zip(captions, views, strict=True)
        ]
        return tuple(pad_sequence(tower, batch_first=True) for tower in map(list, zip(*rows, strict=True)))

    def _matches(self, pairs: Pairs, words: Sequence[Sequence[str]]) -> Bool[Tensor, "b b"]:
        """Match the augmented captions with the images of the batch.

        Where a writer can read captions (Aviary), the words that augmentation has left are read again.
        """
        writer = self.dataset.writer
        if writer is None:
            said = self.dataset.said[pairs[:, 1]]
        else:
            if not isinstance(self.tokeniser, Vocab) or self.tokeniser.rule != "plain":
                words = [tokenise(" ".join(sentence)) for sentence in words]  # as the writer splits captions
            said = np.stack([writer.read(sentence) for sentence in words])
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
    stream: Callable[[int], np.random.Generator] | None = None,
) -> Iterator[tuple[Int64[np.ndarray, " b"], UInt8[Tensor, "b 3 h w"]]]:
    """(indices, pixels) of all images in order, from `start` on; unusable ones are reported.

    For evaluation, embedding and feature caches. `stream(index)` is the generator of an image for a random transform.
    """

    def load(chunk: range) -> tuple[Int64[np.ndarray, " b"], UInt8[Tensor, "b 3 h w"]]:
        streams = [None if stream is None else stream(index) for index in chunk]
        pixels, rows = _load(images, chunk, transform, streams, problems)
        return np.array(chunk)[rows], pixels

    chunks = (range(len(images))[first : first + batch_size] for first in range(start, len(images), batch_size))
    return (batch for batch in ordered(load, chunks, workers=workers) if len(batch[0]))


def _load(
    images: ImageSource,
    indices: Sequence[int],
    transform: ImageTransform,
    streams: Sequence[np.random.Generator | None],
    problems: Problems,
) -> tuple[UInt8[Tensor, "b 3 h w"], list[int]]:
    """The pixels of the images that can be used, and their rows among `indices`; the others are reported."""
    pixels = torch.empty(len(indices), 3, transform.size, transform.size, dtype=torch.uint8)
    rows: list[int] = []
    for row, (index, generator) in enumerate(zip(indices, streams, strict=True)):
        try:
            image = images.load(index)
        except ImageError as error:
            problems.add(error.kind, images.id(index), str(error), meaning=error.meaning)
        else:
            transform.write(pixels[len(rows)], image, generator)
            rows.append(row)
    return pixels[: len(rows)], rows
