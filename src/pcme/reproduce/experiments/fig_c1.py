"""Fig. C.1: how many object classes an image has."""

from dataclasses import dataclass

import numpy as np

from pcme.analysis import Number, Result
from pcme.data.sources import ImageSource
from pcme.errors import DataError
from pcme.plots import Bars, Figure, bars
from pcme.reproduce.base import registry
from pcme.reproduce.sheets import Sheet, Source

SPLITS = ("val", "test")
MOST = 10
"""Images with more classes are counted, not drawn, as in the paper."""
MANY = 2
"""The paper: "about the half of the images have more than two categories"."""


@dataclass(frozen=True)
class Counted:
    """The images of a split by their number of object classes, from none on."""

    split: str
    images: tuple[int, ...]

    @property
    def total(self) -> int:
        """All images."""
        return sum(self.images)

    @property
    def many(self) -> float:
        """The share of those with any object that have more than MANY classes."""
        labelled = self.total - self.images[0]
        return sum(self.images[MANY + 1 :]) / labelled if labelled else float("nan")


@dataclass(frozen=True)
class Categories(Result):
    """The splits that have labels."""

    splits: tuple[Counted, ...]

    def numbers(self) -> tuple[Number, ...]:
        """The share with more than two classes, and the images without any."""
        return tuple(
            Number(f"{what}, {counted.split}", value, meaning)
            for counted in self.splits
            for what, value, meaning in (
                ("images", float(counted.total), "of the split"),
                ("share with more than 2 classes", counted.many, "of images with any; the paper: about a half"),
                ("images without any", float(counted.images[0]), "PMRP leaves them out; the paper: 48 of 5,000"),
                (f"images with more than {MOST}", float(sum(counted.images[MOST + 1 :])), "not drawn"),
            )
        )


@registry.register("fig-c1")
class FigureC1(Sheet[Categories]):
    """How many distinct object classes an image of COCO has."""

    where = "Fig. C.1"
    setups = ("coco",)
    differs = "The paper's is of the validation images alone; here the test images of PMRP stand beside them."
    result = Categories
    title = "Number of distinct categories"
    reading = (
        "The share of images by how many of the 80 object classes are annotated in them; those with none have no "
        "plausible match."
    )

    def compute(self, source: Source) -> Categories:
        """Count the labels of every split that has any; images need not be there."""
        found = []
        for split in (split for split in SPLITS if split in source.known):
            dataset = source.annotations(split)
            if dataset.labels is not None and dataset.labelled.any():
                counts = np.bincount(np.asarray(dataset.labels.values, np.int64).sum(1), minlength=MOST + 2)
                found.append(Counted(split, tuple(counts.tolist())))
        if not found:
            raise DataError(
                "fig-c1: must have labels of objects, got none. Put instances_val2014.json into annotations/."
            )
        return Categories(tuple(found))

    def draw(self, found: Categories, images: ImageSource | None = None) -> Figure:
        """One bar per number of classes and split."""
        series = [
            Bars(
                f"{counted.split}, {counted.total:,} images",
                [100 * count / counted.total for count in counted.images[: MOST + 1]],
            )
            for counted in found.splits
        ]
        return bars(
            [str(number) for number in range(MOST + 1)], series, y_label="images (%)", x_label="distinct categories",
            title="" if len(series) > 1 else series[0].name,
        )  # fmt: skip
