"""Check a dataset before it is used: all images decoded, all captions read, everything counted."""

from dataclasses import dataclass

import numpy as np

from pcme.core.progress import Progress, silent
from pcme.data.images.decoding import ImageError, disguise
from pcme.data.layout import Dataset
from pcme.data.loading.prefetch import ordered
from pcme.data.problems import Problems
from pcme.data.sources import ImageSource


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
    """The report on one split, after decoding every image of it. Triples are (least, median, largest)."""
    loaded = dataset.with_missing().load(split, problems)
    count, labels = len(loaded.images), loaded.labels
    decoded = []
    sizes = ordered(lambda index: _size(loaded.images, index, problems), range(count), workers=workers)
    for done, size in enumerate(sizes, start=1):
        decoded += [size] if size else []
        progress(split, done, count)
    width, height = map(_spread, zip(*decoded, strict=True)) if decoded else (None, None)
    return SplitReport(
        split,
        images=count,
        listed=dataset.expected.get(split),
        decoded=len(decoded),
        captions=len(loaded.captions),
        captions_per_image=_spread(np.bincount(loaded.caption_image, minlength=count)),
        multiplicity=_spread(loaded.multiplicity()),
        classes=len(np.unique(loaded.classes.values)) if loaded.classes else None,
        labels=len(labels.names) if labels else None,
        unlabelled=int((~loaded.labelled).sum()) if labels else None,
        width=width,
        height=height,
    )


def _size(images: ImageSource, index: int, problems: Problems) -> tuple[int, int] | None:
    """The (width, height) of an image that can be decoded."""
    try:
        size = images.load(index).size
    except ImageError as error:
        problems.add(error.kind, images.id(index), str(error), meaning=error.meaning)
        return None
    path = images.path(index)
    if path is not None and (actual := disguise(path)):
        problems.add("image-wrong-extension", images.id(index), f"is a {actual} file")
    return size


def _spread(values: np.ndarray | tuple[int, ...]) -> tuple[int, float, int]:
    return int(np.min(values)), float(np.median(values)), int(np.max(values))
