"""Readings: further ways to judge a split, beside the matches that it was written with.

A dataset names the readings of its splits (`Dataset.readings`). COCO has five folds of 1,000 images (1K), plausible
matches by labels (PMRP), and the judgements of ECCV Caption and CxC. Labels are read wherever a split has some. A new
reading is one class under `@registry.register(name)`. Paper: §4.1, §C.1.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Int64

from pcme.core.registry import Registry
from pcme.data.dataset import CaptionDataset
from pcme.evaluation.eccv import Judgements, load_package
from pcme.evaluation.ground_truth import Fold, GroundTruth
from pcme.retrieval.matches import Matches
from pcme.retrieval.plausible import Groups, Plausible

FOLDS, FOLD = 5, 1000
"""COCO 1K: five folds of 1,000 images, in file order."""

Truths = tuple[GroundTruth, GroundTruth]
"""The ground truth of images as queries, and of captions."""


@dataclass(frozen=True)
class Reading(ABC):
    """Abstract: adds its ground truth to that of a split."""

    title: ClassVar[str]
    """Its name in notes: "no 1K: ..."."""

    @abstractmethod
    def obstacle(self, split: CaptionDataset) -> str | None:
        """Return why a split cannot be judged so, or None where it can."""

    @abstractmethod
    def add(self, split: CaptionDataset, truths: Truths) -> Truths:
        """Return the ground truth of both directions with this reading's added."""


registry: Registry[Reading] = Registry("reading")


@registry.register("pmrp")
@dataclass(frozen=True)
class PlausibleMatches(Reading):
    """Plausible matches: items whose labels differ in few places. Paper: §C.1."""

    title: ClassVar[str] = "PMRP"

    def obstacle(self, split: CaptionDataset) -> str | None:
        """Need labels."""
        return None if split.labelled.any() else f"{split.where} has no labels"

    def add(self, split: CaptionDataset, truths: Truths) -> Truths:
        """Group the images by their labels; a caption has those of its image."""
        assert split.labels is not None
        groups, images = Groups.of(split.labels.values), np.arange(len(split.images))
        i2t, t2i = truths
        return (
            replace(i2t, plausible=Plausible.of(groups, images, split.caption_image)),
            replace(t2i, plausible=Plausible.of(groups, split.caption_image, images)),
        )


@registry.register("1k")
@dataclass(frozen=True)
class Folds(Reading):
    """Five folds of `size` images in file order, each asked within itself. Paper: §4.1 (COCO)."""

    title: ClassVar[str] = "1K"

    size: int = FOLD

    def obstacle(self, split: CaptionDataset) -> str | None:
        """Need exactly five folds of images."""
        count, wanted = len(split.images), FOLDS * self.size
        if count == wanted:
            return None
        return f"{split.where} has {count:,} usable images, {FOLDS} folds of the protocol need {wanted:,}"

    def add(self, split: CaptionDataset, truths: Truths) -> Truths:
        """Cut both sides into folds; a caption is in the fold of its image."""
        images, captions = (
            [np.flatnonzero(owners // self.size == number) for number in range(FOLDS)]
            for owners in (np.arange(len(split.images)), split.caption_image)
        )
        i2t, t2i = truths
        return (
            replace(i2t, folds=tuple(map(_fold, [i2t] * FOLDS, images, captions))),
            replace(t2i, folds=tuple(map(_fold, [t2i] * FOLDS, captions, images))),
        )


@dataclass(frozen=True)
class _Judged(Reading):
    """Abstract: judgements that come with the package `eccv_caption`, under the name of the reading."""

    def obstacle(self, split: CaptionDataset) -> str | None:
        """Need the package, and all images and captions that it judges."""
        package = load_package()
        if package is None:
            return "the package eccv_caption is not installed. Run pip install pcme[eccv]."
        absent = Judgements(package, split).absent
        return f"{absent:,} of their images and captions are not in {split.where}" if absent else None

    def add(self, split: CaptionDataset, truths: Truths) -> Truths:
        """Add the judged relation under its name."""
        name = registry.name_of(type(self))
        i2t, t2i = (
            replace(truth, others={**truth.others, name: relation})
            for truth, relation in zip(truths, Judgements(load_package(), split).relations(name), strict=True)
        )
        return i2t, t2i


@registry.register("eccv")
@dataclass(frozen=True)
class ECCVCaption(_Judged):
    """ECCV Caption (Chun et al. 2022): judged by mAP@R, R-Precision and recall@1."""

    title: ClassVar[str] = "ECCV Caption"


@registry.register("cxc")
@dataclass(frozen=True)
class CxC(_Judged):
    """Crisscrossed Captions (Parekh et al. 2021): judged by recall."""

    title: ClassVar[str] = "CxC"


def _fold(truth: GroundTruth, queries: Int64[np.ndarray, " fq"], gallery: Int64[np.ndarray, " fg"]) -> Fold:
    some = truth.matches[queries]
    column = np.full(some.shape[1], -1, np.int64)
    column[gallery] = np.arange(len(gallery))
    rows, columns = np.repeat(np.arange(len(some)), some.counts), column[some.indices]
    inside = columns >= 0
    matches = Matches.from_pairs(rows[inside], columns[inside], (len(queries), len(gallery)))
    return Fold(queries, gallery, matches, truth.plausible and truth.plausible.restricted(queries, gallery))
