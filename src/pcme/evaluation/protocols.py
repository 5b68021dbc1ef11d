"""Protocol: what is true of a split's queries, either way, and how their figures are averaged.

COCO has many readings of one split: all of it (5K), five folds of 1,000 images (1K), matches by
labels (PMRP), and what others have judged since (`eccv`). CUB matches by class, Aviary by what a
caption says; where there are labels, PMRP comes along.

Paper: §4.1, §C.1.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Int64

from pcme.data.dataset import CaptionDataset
from pcme.errors import DataError
from pcme.evaluation.eccv import judgements
from pcme.evaluation.relations import Relation
from pcme.retrieval.matches import Matches
from pcme.retrieval.plausible import Groups, Plausible

__all__ = ["FOLD", "FOLDS", "Fold", "Protocol", "Truth", "protocol"]

FOLDS, FOLD = 5, 1000
"""COCO 1K: so many folds of so many images, in file order."""


@dataclass(frozen=True, eq=False)
class Truth:
    """What is true of the queries of one direction.

    Queries with one number in `clusters` are not independent: captions of an image, or whatever is
    of one class. `others` are further judgements of the same pairs, by name.
    """

    ids: tuple[str, ...]
    matches: Matches
    clusters: Int64[np.ndarray, " q"]
    plausible: Plausible | None = None
    folds: tuple["Fold", ...] = ()
    others: Mapping[str, Relation] = field(default_factory=dict)

    @property
    def fold_of(self) -> Int64[np.ndarray, " q"]:
        """The number of each query's fold; -1 for none."""
        numbers = np.full(len(self.ids), -1, np.int64)
        for number, fold in enumerate(self.folds):
            numbers[fold.queries] = number
        return numbers


@dataclass(frozen=True, eq=False)
class Fold:
    """Some queries that are asked among some of the gallery; places ascend."""

    queries: Int64[np.ndarray, " fq"]
    gallery: Int64[np.ndarray, " fg"]
    matches: Matches
    plausible: Plausible | None


@dataclass(frozen=True, eq=False)
class Protocol:
    """How a split is judged, both ways; `notes` say what is left out, and why."""

    dataset: str
    i2t: Truth
    t2i: Truth
    digest: str
    """Of the ids and the truth: figures with one digest are of the same queries and answers."""
    labels: str
    """Of the labels that PMRP goes by, which change no other figure; "" where there are none."""
    notes: tuple[str, ...] = ()


def protocol(dataset: CaptionDataset, *, fold: int = FOLD) -> Protocol:
    """All that can be judged on a split; `fold` is the size of COCO's folds, in images."""
    if not len(dataset.images) or not len(dataset.captions):
        raise DataError(
            f"{dataset.where} has {len(dataset.images)} images and {len(dataset.captions)} captions"
            " that can be used - an evaluation needs both - see `pcme data check`"
        )
    images, captions = _bare(dataset, dataset.matches())
    digest = _digest(images, captions)
    if dataset.labels is not None and dataset.labelled.any():
        own, owner = np.arange(len(dataset.images)), dataset.caption_image
        groups = Groups.of(dataset.labels.values)
        images = replace(images, plausible=Plausible.of(groups, own, owner))
        captions = replace(captions, plausible=Plausible.of(groups, owner, own))
    if dataset.name == "coco" and len(dataset.images) == FOLDS * fold:
        images = replace(images, folds=_folds(dataset, images, fold, image_queries=True))
        captions = replace(captions, folds=_folds(dataset, captions, fold, image_queries=False))
    others = judgements(dataset)
    return Protocol(
        dataset.where,
        replace(images, others=others.i2t),
        replace(captions, others=others.t2i),
        digest,
        _labels_digest(dataset),
        (*_missing(dataset, fold), *others.notes),
    )


def _missing(dataset: CaptionDataset, fold: int) -> Iterator[str]:
    """What belongs to COCO's protocol and cannot be judged here."""
    if dataset.name != "coco":
        return
    if not dataset.labelled.any():
        yield (
            f"no PMRP: {dataset.where} has no labels - put instances_val2014.json into annotations/"
        )
    if len(dataset.images) != FOLDS * fold:
        yield (
            f"no 1K: {dataset.where} has {len(dataset.images):,} usable images, {FOLDS} folds of "
            f"the protocol need {FOLDS * fold:,}"
        )


def _bare(dataset: CaptionDataset, matches: Matches) -> tuple[Truth, Truth]:
    """The truths of images and of captions as queries, without labels and folds."""
    clusters = dataset.clusters
    names = tuple(map(dataset.images.id, range(len(dataset.images))))
    return (
        Truth(names, matches.T, clusters),
        Truth(tuple(dataset.caption_ids), matches, clusters[dataset.caption_image]),
    )


def _folds(
    dataset: CaptionDataset, truth: Truth, size: int, *, image_queries: bool
) -> tuple[Fold, ...]:
    found = []
    for number in range(FOLDS):
        images = np.arange(number * size, (number + 1) * size)
        captions = np.flatnonzero(dataset.caption_image // size == number)
        queries, gallery = (images, captions) if image_queries else (captions, images)
        found.append(_fold(truth, queries, gallery))
    return tuple(found)


def _fold(
    truth: Truth, queries: Int64[np.ndarray, " fq"], gallery: Int64[np.ndarray, " fg"]
) -> Fold:
    plausible = truth.plausible
    if plausible is not None:
        plausible = plausible.restricted(queries, gallery)
    return Fold(queries, gallery, _restricted(truth.matches, queries, gallery), plausible)


def _restricted(
    matches: Matches, queries: Int64[np.ndarray, " fq"], gallery: Int64[np.ndarray, " fg"]
) -> Matches:
    some = matches[queries]
    place = np.full(matches.shape[1], -1, np.int64)
    place[gallery] = np.arange(len(gallery))
    rows, columns = np.repeat(np.arange(len(some)), some.counts), place[some.indices]
    kept = columns >= 0
    return Matches.from_pairs(rows[kept], columns[kept], (len(queries), len(gallery)))


def _digest(images: Truth, captions: Truth) -> str:
    seen = hashlib.sha256()
    for truth in (images, captions):
        for text in truth.ids:
            seen.update(text.encode("utf-8", "surrogatepass") + b"\0")
    for array in (captions.matches.indptr, captions.matches.indices.astype(np.int64)):
        seen.update(np.ascontiguousarray(array).tobytes())
    return seen.hexdigest()


def _labels_digest(dataset: CaptionDataset) -> str:
    if dataset.labels is None:
        return ""
    marks = np.ascontiguousarray(dataset.labels.values, np.bool_)
    return hashlib.sha256(f"{marks.shape}".encode() + marks.tobytes()).hexdigest()
