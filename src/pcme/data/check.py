"""Check a dataset before it is used: all images decoded, all captions read, everything counted."""

from dataclasses import dataclass

import numpy as np

from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.images.decoding import ImageError, disguise
from pcme.data.layout import Dataset
from pcme.data.loading.prefetch import ordered
from pcme.data.problems import Problems

CHUNK = 16
"""Images one thread decodes in a row: few enough for a steady progress bar."""


@dataclass(frozen=True)
class SplitReport:
    """The contents of a split. `listed` is the size of the published split, if known."""

    split: str
    images: int
    listed: int | None
    decoded: int
    captions: int
    captions_per_image: tuple[int, float, int]
    multiplicity: tuple[int, float, int]
    classes: int | None
    labels: int | None
    unlabelled: int | None
    width: tuple[int, float, int] | None
    height: tuple[int, float, int] | None


def check_split(
    dataset: Dataset, split: str, problems: Problems, *, workers: int = 2, progress: Progress = silent
) -> SplitReport:
    """The report on one split, after decoding every image of it; problems go to `problems`.

    Triples are (least, median, largest). `progress` is called as images are decoded.
    """
    loaded = dataset.with_missing().load(split, problems)
    sizes = _decoded_sizes(loaded, problems, workers, progress)
    labels = loaded.labels
    return SplitReport(
        split,
        images=len(loaded.images),
        listed=dataset.expected.get(split),
        decoded=len(sizes),
        captions=len(loaded.captions),
        captions_per_image=_spread(np.bincount(loaded.caption_image, minlength=len(loaded.images))),
        multiplicity=_spread(loaded.multiplicity()),
        classes=len(np.unique(loaded.classes.values)) if loaded.classes else None,
        labels=len(labels.names) if labels else None,
        unlabelled=int((~loaded.labelled).sum()) if labels else None,
        width=_spread(sizes[:, 0]) if len(sizes) else None,
        height=_spread(sizes[:, 1]) if len(sizes) else None,
    )


def _decoded_sizes(dataset: CaptionDataset, problems: Problems, workers: int, progress: Progress) -> np.ndarray:
    """(width, height) of every image that can be decoded."""
    total = len(dataset.images)
    chunks = [range(i, min(i + CHUNK, total)) for i in range(0, total, CHUNK)]

    def sizes_of(chunk: range) -> list[tuple[int, int]]:
        found = (_size(dataset, index, problems) for index in chunk)
        return [size for size in found if size is not None]

    sizes: list[tuple[int, int]] = []
    for done, part in enumerate(ordered(sizes_of, chunks, workers=workers), start=1):
        sizes += part
        progress(dataset.split, min(done * CHUNK, total), total)
    return np.array(sizes, np.int64).reshape(-1, 2)


def _size(dataset: CaptionDataset, index: int, problems: Problems) -> tuple[int, int] | None:
    images = dataset.images
    try:
        size = images.load(index).size
    except ImageError as error:
        problems.add(error.kind, images.id(index), str(error), meaning=error.meaning)
        return None
    path = images.path(index)
    if path is not None and (actual := disguise(path)):
        problems.add("image-wrong-extension", images.id(index), f"is a {actual} file")
    return size


def _spread(values: np.ndarray) -> tuple[int, float, int]:
    return int(values.min()), float(np.median(values)), int(values.max())
