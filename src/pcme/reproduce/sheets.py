"""Sheets: experiments that draw the data, or the network, as they are; nothing is trained for them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from pcme.analysis import Result
from pcme.data.dataset import CaptionDataset
from pcme.data.sources import ImageSource
from pcme.evaluation.open_run import find_dataset
from pcme.plots import Figure
from pcme.recipes.schema import Recipe
from pcme.reproduce.base import Experiment

R = TypeVar("R", bound=Result)


@dataclass(frozen=True, eq=False)
class Source:
    """What a sheet is drawn of: a recipe, and the data that it names.

    `splits` are the setup's: {"unseen": "test"}.
    """

    recipe: Recipe
    splits: Mapping[str, str]
    data_root: Path | None

    @property
    def known(self) -> tuple[str, ...]:
        """The splits that are there."""
        return find_dataset(self.recipe, self.data_root).splits

    def annotations(self, split: str) -> CaptionDataset:
        """A split by its own name, whether its images are there or not."""
        return find_dataset(self.recipe, self.data_root).with_missing().load(split)

    @cached_property
    def unseen(self) -> CaptionDataset:
        """The split that is evaluated, without the images that are missing."""
        return find_dataset(self.recipe, self.data_root).load(self.splits["unseen"])


class Sheet(Experiment, ABC, Generic[R]):
    """Abstract: a drawing of the data or of the network."""

    setups: ClassVar[tuple[str, ...]] = ("aviary", "cub", "coco")
    result: ClassVar[type[Result]]
    """The class of what is drawn: R."""
    title: ClassVar[str]
    reading: ClassVar[str]
    """How to read the figure."""
    shows_images: ClassVar[bool] = False
    """Whether it shows images of the split that is evaluated."""

    @abstractmethod
    def compute(self, source: Source) -> R:
        """Gather what is drawn."""

    @abstractmethod
    def draw(self, found: R, images: ImageSource | None = None) -> Figure:
        """Draw it; `images` are those of the split, where there are any at hand."""
