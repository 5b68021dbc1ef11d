"""Flickr8k and Flickr30k: the authors' token files and image lists, or Karpathy's split files."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from pcme.data.dataset import CaptionDataset
from pcme.data.formats.karpathy import karpathy_records, located
from pcme.data.layout import Dataset, registry
from pcme.data.problems import Problems
from pcme.data.records import Record, assemble
from pcme.data.sources import Files
from pcme.data.text_files import filled_lines, text_lines


@dataclass(frozen=True)
class _Flickr(Dataset):
    tokens: ClassVar[str]
    lists: ClassVar[Mapping[str, str]] = MappingProxyType({})
    patterns: ClassVar[tuple[str, ...]]

    root: Path
    need_images: bool = True
    """Whether captions of missing images are left out; False for work on text alone."""

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """A folder with the token file or Karpathy's file."""
        return (root / cls.tokens).is_file() or cls._karpathy(root).is_file()

    @property
    def splits(self) -> tuple[str, ...]:
        """Karpathy's three; otherwise those that have a list, or "all" without any."""
        if self._karpathy(self.root).is_file():
            return ("train", "val", "test")
        listed = [split for split, name in self.lists.items() if (self.root / name).is_file()]
        return tuple(listed) or ("all",)

    def with_missing(self) -> "_Flickr":
        """The captions of all images, there or not."""
        return replace(self, need_images=False)

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split, images in the order of its list."""
        self.checked_split(split)
        karpathy = self._karpathy(self.root)
        listed = karpathy_records(karpathy, split, problems) if karpathy.is_file() else self._listed(split, problems)
        records = located(listed, self.root, self.patterns)
        name = type(self).__name__.lower()
        return assemble(
            name, split, records, lambda names: Files(self.root, names), problems, need_images=self.need_images
        )

    def _listed(self, split: str, problems: Problems) -> Iterator[Record]:
        captions = _tokens(self.root / self.tokens, problems)
        names = captions if split == "all" else filled_lines(self.root / self.lists[split], problems)
        return (Record(name, captions.get(name, [])) for name in names)

    @classmethod
    def _karpathy(cls, root: Path) -> Path:
        return root / f"dataset_{cls.__name__.lower()}.json"


@registry.register("flickr8k")
class Flickr8k(_Flickr):
    """Flickr8k (Hodosh et al. 2013): 6,000 / 1,000 / 1,000 images, five captions each."""

    layout = (
        "Flickr8k.token.txt with Flickr_8k.trainImages.txt, devImages, testImages, or "
        "dataset_flickr8k.json (Karpathy); images in images/ or Flicker8k_Dataset/"
    )
    expected = MappingProxyType({"train": 6_000, "dev": 1_000, "val": 1_000, "test": 1_000})
    tokens = "Flickr8k.token.txt"
    lists = MappingProxyType({split: f"Flickr_8k.{split}Images.txt" for split in ("train", "dev", "test")})
    patterns = ("images/{path}", "Flicker8k_Dataset/{path}", "Flickr8k_Dataset/{path}", "{path}")


@registry.register("flickr30k")
class Flickr30k(_Flickr):
    """Flickr30k (Young et al. 2014): 29,000 / 1,014 / 1,000 images, five captions each."""

    layout = (
        "results_20130124.token or dataset_flickr30k.json (Karpathy, which has the splits); images "
        "in flickr30k-images/ or images/"
    )
    expected = MappingProxyType({"train": 29_000, "val": 1_014, "test": 1_000, "all": 31_783})
    tokens = "results_20130124.token"
    patterns = ("flickr30k-images/{path}", "flickr30k_images/{path}", "images/{path}", "{path}")


def _tokens(path: Path, problems: Problems) -> dict[str, list[str]]:
    """{image name: its captions} of lines "name.jpg#0<TAB>caption"."""
    captions: defaultdict[str, list[str]] = defaultdict(list)
    for where, line in text_lines(path, problems):
        name, tab, caption = line.partition("\t")
        name, mark, _ = name.rpartition("#")
        if tab and mark and name:
            captions[name].append(caption)
        elif line.strip():
            problems.add("row-malformed", where, "not name#number, tab, caption")
    return captions
