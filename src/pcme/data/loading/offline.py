"""Offline negatives: batches that bring negatives mined from the whole training set.

Chen et al. 2020 (AOQ, ECCV), §3.1 and §3.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int32, Int64

from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.loading.samplers import AFRESH, Pairs, Sampler


@dataclass(frozen=True, eq=False)
class OfflineNegatives:
    """The false captions most like each image [n,h], and images like each caption [m,g], as rows of the dataset.

    A row of −1 is of an item that has none, or that could not be embedded.
    """

    captions: Int32[np.ndarray, "n h"]
    images: Int32[np.ndarray, "m g"]


@dataclass(frozen=True)
class WithOffline(Sampler):
    """The batches of another sampler in three parts: its pairs (i, c), then (î, ĉ), then (i′, c′).

    ĉ is a caption like image i, and î an image like caption c, at the same share of their lists (as in the authors'
    code); i′ is the image of ĉ, and c′ any caption of î. A pair without negatives is left out. A caption that is
    written afresh has the negatives of a stored caption of its image.
    """

    pairs: Sampler
    dataset: CaptionDataset
    negatives: OfflineNegatives
    seed: int

    def __len__(self) -> int:
        return len(self.pairs)

    def epoch(self, number: int) -> Sequence[Pairs]:
        """The batches of this epoch."""
        batches = enumerate(self.pairs.epoch(number))
        return [self._with(pairs, numpy_stream(self.seed, "offline", number, step)) for step, pairs in batches]

    def _with(self, pairs: Pairs, generator: np.random.Generator) -> Int64[np.ndarray, "parts 2"]:
        like_images, like_captions = self.negatives.captions, self.negatives.images
        stored = np.where(pairs[:, 1] == AFRESH, self._captions_of(pairs[:, 0], generator), pairs[:, 1])
        share = generator.random(len(pairs))
        captions = like_images[pairs[:, 0], (share * like_images.shape[1]).astype(np.int64)].astype(np.int64)
        images = like_captions[stored, (share * like_captions.shape[1]).astype(np.int64)].astype(np.int64)
        partners = np.column_stack([self.dataset.caption_image[captions], self._captions_of(images, generator)])
        usable = (captions >= 0) & (images >= 0)
        parts = pairs, np.column_stack([images, captions]), partners
        return np.concatenate([part[usable] for part in parts])

    def _captions_of(self, images: Int64[np.ndarray, " b"], generator: np.random.Generator) -> Int64[np.ndarray, " b"]:
        """A random stored caption of each image; of an image without any, the caption of another."""
        order, starts = self._by_image
        first, after = starts[images], starts[images + 1]
        place = first + (generator.random(len(images)) * (after - first)).astype(np.int64)
        chosen: np.ndarray = order[np.minimum(place, len(order) - 1)]
        return chosen

    @cached_property
    def _by_image(self) -> tuple[Int64[np.ndarray, " m"], Int64[np.ndarray, " starts"]]:
        """The captions in the order of their images, and where each image's begin."""
        counts = np.bincount(self.dataset.caption_image, minlength=len(self.dataset.images))
        return np.argsort(self.dataset.caption_image, kind="stable"), np.concatenate([[0], np.cumsum(counts)])
