"""Protocol: the ground truth of a split's queries in both directions, under all its readings. Paper: §4.1, §C.1.

CUB matches by class, Aviary by what a caption says, COCO by the image a caption was written for. Further readings of a
split (`pcme.evaluation.readings`) are added to its own matches.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcme.data.dataset import CaptionDataset
from pcme.errors import DataError
from pcme.evaluation import readings
from pcme.evaluation.ground_truth import GroundTruth
from pcme.evaluation.readings import Reading, Truths


@dataclass(frozen=True, eq=False)
class Protocol:
    """How a split is judged in both directions; `notes` say what is left out, and why."""

    dataset: str
    i2t: GroundTruth
    t2i: GroundTruth
    digest: str
    """Digest of the ids and matches: equal for the same queries and relevant items."""
    labels: str
    """Digest of the labels behind PMRP, which change no other metric; "" without labels."""
    notes: tuple[str, ...] = ()


def protocol(dataset: CaptionDataset, chosen: Sequence[Reading] | None = None) -> Protocol:
    """Gather all that a split can be judged by; `chosen` readings replace those it names."""
    if not len(dataset.images) or not len(dataset.captions):
        raise DataError(
            f"{dataset.where}: needs images and captions, got {len(dataset.images)} usable images and "
            f"{len(dataset.captions)} captions. See `pcme data check`."
        )
    truths = _own(dataset)
    digest = _digest(truths)
    obstacles: dict[str, list[str]] = {}
    if chosen is None:
        labelled = ["pmrp"] if dataset.labelled.any() else []  # folds need the labels before them
        chosen = [readings.registry.create(name) for name in dict.fromkeys([*labelled, *dataset.readings])]
    known = {readings.registry.get(name): why for name, why in dataset.obstacles.items()}
    for reading in chosen:
        if (obstacle := known.get(type(reading)) or reading.obstacle(dataset)) is None:
            truths = reading.add(dataset, truths)
        else:
            obstacles.setdefault(obstacle, []).append(f"no {reading.title}")
    notes = tuple(f"{', '.join(titles)}: {why}" for why, titles in obstacles.items())
    return Protocol(dataset.where, *truths, digest, _labels_digest(dataset), notes)


def _own(dataset: CaptionDataset) -> Truths:
    """The matches that the split was written with."""
    matches, clusters = dataset.matches(), dataset.clusters
    names = tuple(map(dataset.images.id, range(len(dataset.images))))
    return (
        GroundTruth(names, matches.T, clusters),
        GroundTruth(tuple(dataset.caption_ids), matches, clusters[dataset.caption_image]),
    )


def _digest(truths: Truths) -> str:
    seen = hashlib.sha256()
    for truth in truths:
        for text in truth.ids:
            seen.update(text.encode("utf-8", "surrogatepass") + b"\0")
    matches = truths[1].matches
    for array in (matches.indptr, matches.indices.astype(np.int64)):
        seen.update(np.ascontiguousarray(array).tobytes())
    return seen.hexdigest()


def _labels_digest(dataset: CaptionDataset) -> str:
    if dataset.labels is None:
        return ""
    marks = np.ascontiguousarray(dataset.labels.values, np.bool_)
    return hashlib.sha256(f"{marks.shape}".encode() + marks.tobytes()).hexdigest()
