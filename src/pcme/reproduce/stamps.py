"""Stamps: digests of everything a run depends on, so that equal runs are made once."""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from pcme.data.dataset import CaptionDataset
from pcme.evaluation.open_run import find_dataset
from pcme.recipes.schema import Recipe


def digest(recipe: Recipe, stamp: str) -> str:
    """The digest of a recipe, its data and this version of the code."""
    inputs = {"recipe": recipe.record(), "data": stamp, "pcme": version("pcme")}
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def data_stamp(recipe: Recipe, data_root: Path | None, splits: Sequence[str]) -> str:
    """The digest of the ids, captions, ground truth and labels on disk; "" for drawn data.

    Drawn data follow from the recipe.
    """
    dataset = find_dataset(recipe, data_root)
    if not dataset.layout:
        return ""
    parts = [_of(dataset.load(split)) for split in (recipe.train_split, *splits)]
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def _of(dataset: CaptionDataset) -> str:
    contents = hashlib.sha256()
    ids = [dataset.images.id(number) for number in range(len(dataset.images))]
    for text in (*ids, *dataset.captions):
        contents.update(text.encode("utf-8", "surrogatepass") + b"\0")
    # Only labels that are there: without any, the stamp is that of runs from before they counted.
    labels = [] if dataset.labels is None else [dataset.labels.values]
    for truth in (dataset.caption_image, dataset.facts, dataset.said, *labels):
        contents.update(np.ascontiguousarray(truth).tobytes())
    return contents.hexdigest()
