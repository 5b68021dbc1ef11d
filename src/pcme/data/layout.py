"""Dataset: a layout of files, or a drawn world, that loads its splits by name."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from pcme.core.registry import Registry
from pcme.data.dataset import CaptionDataset
from pcme.data.problems import Problems
from pcme.errors import ConfigError


@dataclass(frozen=True)
class ClassFold:
    """A division of the training classes for cross-validation: the split to learn from, and that of the others."""

    train: str
    val: str


@dataclass(frozen=True)
class Dataset(ABC):
    """A dataset as a user names it: a frozen dataclass whose fields are its parameters, on disk with a field `root`."""

    layout: ClassVar[str] = ""
    """The contents of its folder, in one line; "" for a dataset that needs none."""
    expected: ClassVar[Mapping[str, int]] = MappingProxyType({})
    """Images per split of the whole published dataset, if known."""
    rank: ClassVar[int] = 0
    """Layouts are tried from the lowest rank up; general ones have higher ranks."""
    readings: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """Further ways to judge a split, beside its own matches: {split: names of readings}."""

    @property
    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """The names of the splits that can be loaded here."""

    @property
    def folds(self) -> tuple[ClassFold, ...]:
        """The divisions of its training classes that were published for cross-validation, as far as they are here."""
        return ()

    def load(self, split: str, problems: Problems | None = None) -> CaptionDataset:
        """Load one split; items that cannot be used are left out and reported to `problems`."""
        loaded = self.read(split, Problems() if problems is None else problems)
        return replace(loaded, readings=self.readings.get(split, loaded.readings))

    @abstractmethod
    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """Read one split for `load`; refuse a name that is not among `splits`."""

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """Whether a folder, or file, has this dataset's layout."""
        return False

    def with_missing(self) -> "Dataset":
        """The same dataset with missing images, where it can be read so; to load one is an ImageError."""
        return self

    def checked_split(self, split: str) -> str:
        """`split`, or a ConfigError that names the splits there are, or the files there must be."""
        splits, kind = self.splits, type(self).__name__
        if not splits:
            raise ConfigError(
                f'{getattr(self, "root", kind)}: no split "{split}", none of the files of {kind} '
                f"are there. It must hold {self.layout}."
            )
        if split not in splits:
            raise ConfigError(f'{kind}: no split "{split}", it has {", ".join(splits)}.')
        return split


registry: Registry[Dataset] = Registry("dataset", "pcme.data.formats", "pcme.data.aviary")


def recognise(path: Path, **params: object) -> Dataset:
    """Find the dataset in a folder, or file, by its layout."""
    layouts = {name: cls for name in registry.names() if (cls := registry.get(name)).layout}
    for name in sorted(layouts, key=lambda name: (layouts[name].rank, name)):
        if layouts[name].recognises(path):
            return registry.create(name, **{**params, "root": path})
    known = "\n".join(f"  {name}: {cls.layout}" for name, cls in layouts.items())
    raise ConfigError(f"{path} has no layout known here. Known layouts:\n{known}")
