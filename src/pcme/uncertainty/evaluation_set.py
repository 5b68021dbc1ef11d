"""Evaluation sets: embedded captions and images with their matches, whole or in two halves."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.errors import ConfigError, DataError
from pcme.evaluation import Embedded
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score

BLOCK_BYTES = 64 * 2**20
"""Memory for the temporaries of one block of pairs."""
LEAST_CLASSES = 4
"""With fewer classes a split is divided by images."""


@dataclass(frozen=True)
class EvaluationSet:
    """Embedded captions and images, and which match."""

    where: str
    captions: Embedding
    images: Embedding
    matches: Matches


def whole(split: Embedded) -> EvaluationSet:
    """All of an embedded split."""
    return EvaluationSet(split.dataset.where, split.captions, split.images, split.dataset.matches())


def halves(split: Embedded) -> tuple[EvaluationSet, EvaluationSet]:
    """Divide the classes of a split at random in two halves, with their images and captions.

    The second half then has classes that a fit on the first has not seen. A split without classes is divided by images.
    """
    dataset, count = split.dataset, len(split.dataset.images)
    if count < 2:
        raise DataError(f"{dataset.where}: two images or more are needed, got {count}. Give a larger split.")
    groups = np.arange(count)
    if dataset.classes is not None and len(np.unique(dataset.classes.values)) >= LEAST_CLASSES:
        groups = np.unique(dataset.classes.values, return_inverse=True)[1]
    order = numpy_stream(0, "calibration").permutation(groups.max() + 1)
    first = np.isin(groups, order[: len(order) // 2])
    return _subset(split, first), _subset(split, ~first)


def log_probabilities(
    score: Score, pairs: EvaluationSet
) -> Iterator[tuple[slice, Float64[np.ndarray, "q g"], Bool[np.ndarray, "q g"]]]:
    """Yield (rows of captions, their log p with every image, which pairs match), in blocks."""
    if not score.is_log_probability:
        raise ConfigError(f"score: must be a match probability, got {score.name}. Train with pcme, pcme-mu or pcme++.")
    for rows, block in score.blocks(pairs.captions, pairs.images, memory_limit=BLOCK_BYTES):
        yield rows, np.asarray(block, np.float64), pairs.matches.dense(rows)


def _subset(split: Embedded, chosen: Bool[np.ndarray, " n"]) -> EvaluationSet:
    """The chosen images and their captions."""
    dataset = split.dataset
    images, captions = np.flatnonzero(chosen), np.flatnonzero(chosen[dataset.caption_image])
    matches = Matches.from_facts(dataset.said[captions], dataset.facts[images])
    return EvaluationSet(dataset.where, split.captions[captions.tolist()], split.images[images.tolist()], matches)
