"""What the tests of evaluation share: a split with labels and embeddings of it, no files needed."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from pcme.data.dataset import CaptionDataset, NamedValues
from pcme.data.sources import Files
from pcme.evaluation import Direction
from pcme.evaluation.readings import Folds, PlausibleMatches
from tests.helpers import random_gaussians

COCO = {"name": "coco", "readings": ("pmrp", "1k", "eccv", "cxc")}
FOLDS_OF_4 = [PlausibleMatches(), Folds(4)]
"""The readings of a small split: labels, and five folds of four images."""


def toy(images=10, per_image=2, *, name="toy", seed=0, readings=(), classes=0, labels=6, density=0.4):
    """A split of images with captions written for them; classes and labels where asked for."""
    generator = np.random.default_rng(seed)
    owner = np.repeat(np.arange(images), per_image)
    kinds = NamedValues(generator.integers(0, classes, images), tuple("abc")) if classes else None
    marks = (generator.random((images, labels)) < density).astype(np.int64)
    split = CaptionDataset.by_image(
        name,
        "test",
        Files(Path(), [f"{i}.jpg" for i in range(images)]),
        [f"caption {i}" for i in range(len(owner))],
        owner,
        classes=kinds,
        labels=NamedValues(marks, tuple("abcdef"[:labels])) if labels else None,
        metadata=[{"coco_id": 100 + i} for i in range(images)],
    )
    return replace(split, readings=readings)


def direction(values, clusters=None, folds=None):
    """A direction of {metric: values}; each query is a cluster, and in no fold, unless told."""
    arrays = {name: np.asarray(array, float) for name, array in values.items()}
    count = len(next(iter(arrays.values())))
    clusters, folds = (np.arange(count) if clusters is None else clusters, [-1] * count if folds is None else folds)
    return Direction(arrays, tuple(map(str, range(count))), 9, np.asarray(clusters), np.asarray(folds))


def embeddings(dataset, *, dim=3, seed=0):
    """Gaussians that know little of the split: (images, captions)."""
    images = random_gaussians(len(dataset.images), dim, seed=seed)
    captions = random_gaussians(len(dataset.captions), dim, seed=seed + 1)
    captions.mean.add_(images.mean[dataset.caption_image], alpha=0.7)
    return images, captions
