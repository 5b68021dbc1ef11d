"""CUB Captions: CUB-200-2011 with Reed et al.'s ten captions per image and Xian et al.'s splits.

A caption matches every image of its class. Splits:

* `train`: the 150 trainval classes without the seen-test images (7,067 images)
* `test`: the 50 unseen classes (2,967)
* `seen`: held-out images of the 150 seen classes (1,754)
* `train1`/`val1` ... `train3`/`val3`: folds of 100/50 trainval classes for choosing settings, without seen-test images

The three lists of validation classes overlap: they name 106 of the 150 classes, 37 of them more than once.

The published list of seen-test images names ten of unseen classes; they belong to `test`, as in the authors' code.

With `classes` there are these classes alone, whichever list they are in, and the splits are CUB-200-2011's own division
of their images into `train` and `test`. Paper: §4.1, §C.1; §C.3 for some classes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from pcme.core.checks import require
from pcme.data.dataset import CaptionDataset
from pcme.data.layout import ClassFold, Dataset, registry
from pcme.data.problems import Problems
from pcme.data.records import Record, assemble
from pcme.data.sources import Files
from pcme.data.text_files import filled_lines
from pcme.errors import FormatError

_CLASS_LISTS = {
    "train": "trainvalclasses.txt",
    "test": "testclasses.txt",
    "seen": "trainvalclasses.txt",
    **{f"train{k}": f"trainclasses{k}.txt" for k in (1, 2, 3)},
    **{f"val{k}": f"valclasses{k}.txt" for k in (1, 2, 3)},
}
_INDEX, _HALVES = "images.txt", "train_test_split.txt"
"""CUB-200-2011's own: "7 class/name.jpg", and "7 1" where image 7 is one of its training images."""


@registry.register("cub")
@dataclass(frozen=True)
class CUB(Dataset):
    """CUB Captions: 200 bird species, ten captions per image, matched by class."""

    layout: ClassVar[str] = (
        "images/<class>/*.jpg, text_c10/<class>/*.txt (ten captions per file) and splits/ with "
        "trainvalclasses.txt, testclasses.txt, trainclasses1.txt ... and seen_test_images.txt"
    )
    expected: ClassVar[Mapping[str, int]] = MappingProxyType({"train": 7_067, "test": 2_967, "seen": 1_754})

    root: Path
    classes: Sequence[str] = ()
    """The only classes to read, as their folders are called; none: those of the splits' lists."""

    def __post_init__(self) -> None:
        named = not isinstance(self.classes, str)
        require("classes", named, 'a list of names of folders, such as ["053.Western_Grebe"]', self.classes)
        object.__setattr__(self, "classes", tuple(self.classes))  # JSON has lists

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """A folder with images/ and text_c10/."""
        return (root / "images").is_dir() and (root / "text_c10").is_dir()

    @property
    def splits(self) -> tuple[str, ...]:
        """Those whose list of classes, or of images, is there."""
        if self.classes:
            return ("train", "test") if all(self._list(file).is_file() for file in (_INDEX, _HALVES)) else ()
        return tuple(name for name, file in _CLASS_LISTS.items() if self._list(file).is_file())

    @property
    def folds(self) -> tuple[ClassFold, ...]:
        """The three of Xian et al., those of which both lists are there. Paper: §D."""
        folds = (ClassFold(f"train{k}", f"val{k}") for k in (1, 2, 3))
        return tuple(fold for fold in folds if {fold.train, fold.val} <= {*self.splits})

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split, in the order of images.txt (of file names without it)."""
        if not self.splits:
            raise FormatError(f"{self.root}: {self._lacking()}")
        self.checked_split(split)
        records, images = self._records(split, problems), self.root / "images"
        return assemble("cub", split, records, lambda names: Files(images, names), problems).matching_class()

    def _lacking(self) -> str:
        if self.classes:
            return f"has no {_INDEX} and {_HALVES}, which divide some classes. Put those of CUB-200-2011 there."
        return "has no class lists. Put the files of the zero-shot splits of Xian et al. into splits/."

    def _records(self, split: str, problems: Problems) -> Iterator[Record]:
        classes = self._here(list(self.classes) or self._lines(_CLASS_LISTS[split], problems), problems)
        is_in = self._membership(split, problems)
        for name in self._listing(problems):
            class_name = name.partition("/")[0]
            if class_name in classes and is_in(name):
                yield Record(name, self._captions(name, problems), class_name=class_name)

    def _membership(self, split: str, problems: Problems) -> Callable[[str], bool]:
        """Whether an image of the split's classes belongs to the split."""
        if self.classes:
            rows = [line.split(maxsplit=1) for line in self._lines(_HALVES, problems)]
            numbers = {number for number, *half in rows if half == ["1"]}
            index = (line.partition(" ") for line in self._lines(_INDEX, problems))
            training = {name.strip() for number, _, name in index if number in numbers}
            return lambda name: (name in training) == (split == "train")
        held_out = set(self._lines("seen_test_images.txt", problems)) if split != "test" else set()
        return lambda name: (name in held_out) == (split == "seen")

    def _here(self, classes: list[str], problems: Problems) -> set[str]:
        """The classes whose folders are there; the others are reported once, not per image."""
        here = {name for name in classes if (self.root / "images" / name).is_dir()}
        for name in sorted(set(classes) - here):
            problems.add("class-missing", name, "no folder in images/")
        return here

    def _listing(self, problems: Problems) -> list[str]:
        index = self.root / _INDEX
        if index.is_file():
            return [line.split(maxsplit=1)[-1] for line in filled_lines(index, problems)]
        folder = self.root / "images"
        return sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*.jpg"))

    def _captions(self, name: str, problems: Problems) -> list[str]:
        path = (self.root / "text_c10" / name).with_suffix(".txt")
        return list(filled_lines(path, problems)) if path.is_file() else []

    def _lines(self, file: str, problems: Problems) -> list[str]:
        path = self._list(file)
        if not path.is_file():
            raise FormatError(f"{path}: is missing, one of the files of the zero-shot splits.")
        return list(filled_lines(path, problems))

    def _list(self, file: str) -> Path:
        inner = self.root / "splits" / file
        return inner if inner.is_file() else self.root / file
