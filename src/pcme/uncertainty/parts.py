"""Captions, images and the truth about them, in two parts: one to fit on and one to judge on."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.embedding import Embedding
from pcme.errors import ConfigError, DataError
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score

__all__ = ["Part", "halves", "log_probabilities", "uncertainty", "whole"]

BLOCK_BYTES = 64 * 2**20
"""Temporaries of one block of pairs."""

FEWEST = 4
"""Classes that are worth dividing by."""


@dataclass(frozen=True)
class Part:
    """Embedded captions and images, and which match."""

    where: str
    captions: Embedding
    images: Embedding
    matches: Matches


def whole(dataset: CaptionDataset, captions: Embedding, images: Embedding) -> Part:
    """All of an embedded split."""
    return Part(dataset.where, captions, images, dataset.matches())


def halves(
    dataset: CaptionDataset, captions: Embedding, images: Embedding, *, seed: int = 0
) -> tuple[Part, Part]:
    """A split's classes in two halves at random, each with its images and their captions.

    What is judged then is of classes that the fit has not seen. Without classes, images are
    divided.
    """
    count = len(dataset.images)
    if count < 2:
        raise DataError(f"{dataset.where} has {count} images - two are the least to divide")
    groups = np.arange(count)
    if dataset.classes is not None and len(np.unique(dataset.classes.values)) >= FEWEST:
        groups = np.unique(dataset.classes.values, return_inverse=True)[1]
    order = numpy_stream(seed, "calibration").permutation(groups.max() + 1)
    first = np.isin(groups, order[: len(order) // 2])
    return tuple(_part(dataset, captions, images, some) for some in (first, ~first))  # type: ignore[return-value]


def log_probabilities(
    score: Score, part: Part
) -> Iterator[tuple[slice, Float64[np.ndarray, "q g"], Bool[np.ndarray, "q g"]]]:
    """(captions, log p of each with every image, which match): all pairs, block by block."""
    if not score.is_log_probability:
        raise ConfigError(
            f"{type(score).__name__} is not a match probability, so there is none to calibrate - "
            "train with a method that has one: pcme, pcme-overlap, pcme-mu, pcme++"
        )
    for rows, block in score.blocks(part.captions, part.images, memory_limit=BLOCK_BYTES):
        yield rows, np.asarray(block, np.float64), part.matches.dense(rows)


def uncertainty(items: Embedding) -> Float64[np.ndarray, " n"] | None:
    """The geometric mean of σ of each item; None for points."""
    found = items.uncertainty()
    return None if found is None else found.numpy().astype(np.float64)


def _part(
    dataset: CaptionDataset, captions: Embedding, images: Embedding, some: Bool[np.ndarray, " n"]
) -> Part:
    shown = np.flatnonzero(some)
    written: Int64[np.ndarray, " m"] = np.flatnonzero(some[dataset.caption_image])
    matches = Matches.from_facts(dataset.said[written], dataset.facts[shown])
    return Part(dataset.where, captions[written.tolist()], images[shown.tolist()], matches)
