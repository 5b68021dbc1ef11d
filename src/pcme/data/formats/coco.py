"""COCO Captions: the Karpathy splits, or without `dataset_coco.json` the official ones of the annotation files.

Five captions of an image count, the first five where there are more: so the 5K protocol has its 25,000 test captions.
The labels for Plausible-Match R-Precision are the 80 object classes of the val instances files; a crowd counts as its
class. No measure needs those of train, a file of 450 MB. Paper: §4.1, §C.1.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from pcme.data.dataset import CaptionDataset
from pcme.data.formats.karpathy import karpathy_records, located
from pcme.data.layout import Dataset, registry
from pcme.data.problems import Problems
from pcme.data.records import Record, assemble
from pcme.data.sources import Files
from pcme.data.text_files import json_document
from pcme.errors import FormatError

CAPTIONS_PER_IMAGE = 5
_KARPATHY = "dataset_coco.json"
_PATTERNS = ("{path}", "images/{path}", "images/trainval35k/{name}", "images/{name}", "{name}")
_Labelled = tuple[list[Record], list[str] | None, str]
"""Records, the names of their labels' classes, and why there are no labels."""


@registry.register("coco")
@dataclass(frozen=True)
class COCO(Dataset):
    """COCO Captions: Karpathy or official splits, five captions per image, 80 object classes."""

    expected: ClassVar[Mapping[str, int]] = MappingProxyType({"train": 113_287, "val": 5_000, "test": 5_000})
    layout: ClassVar[str] = (
        "dataset_coco.json (Karpathy) or annotations/captions_*.json, instances_*.json, and the "
        "images in train2014/ val2014/ (or 2017), maybe below images/; .json.gz is read too"
    )
    readings: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {"val": ("pmrp", "1k"), "test": ("pmrp", "1k", "eccv", "cxc")}
    )

    root: Path
    need_images: bool = True
    """Whether captions of missing images are left out; False for work on text alone."""

    @classmethod
    def recognises(cls, root: Path) -> bool:
        """A folder with Karpathy's file or official caption files."""
        return root.is_dir() and bool(_document(root, _KARPATHY) or _official(root))

    @property
    def splits(self) -> tuple[str, ...]:
        """train, val, test with Karpathy's file; otherwise the official ones present."""
        if _document(self.root, _KARPATHY):
            return ("train", "val", "test")
        return tuple(sorted(_official(self.root)))

    def with_missing(self) -> "COCO":
        """The captions of all images, there or not."""
        return replace(self, need_images=False)

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split, images in file order."""
        self.checked_split(split)
        if karpathy := _document(self.root, _KARPATHY):
            year, listed = "2014", karpathy_records(karpathy, split, problems)
        else:
            captions = _official(self.root)[split]
            year, listed = _folder(captions)[-4:], _official_records(captions, problems)
        records = located(listed, self.root, _PATTERNS)
        labelled: _Labelled = (records, None, "") if split == "train" else _with_objects(records, self.root, year)
        records, classes, fault = labelled
        assembled = assemble(
            "coco",
            split,
            records,
            lambda names: Files(self.root, names),
            problems,
            captions_per_image=CAPTIONS_PER_IMAGE,
            label_names=classes,
            need_images=self.need_images,
        )
        obstacles = {"pmrp": f"{assembled.where} {fault}"} if fault else {}
        if not karpathy:
            kind = f"{assembled.where} is the official split of {year}, the folds are of Karpathy's"
            obstacles["1k"] = f"{kind}. Put dataset_coco.json beside annotations/."
        return replace(assembled, obstacles=obstacles)


@dataclass(frozen=True)
class _Objects:
    """What the val instances files say: object classes by category id, images listed, {image id: classes seen}."""

    names: list[str]
    images: set[str]
    seen: defaultdict[str, set[str]]


def _with_objects(records: list[Record], root: Path, year: str) -> _Labelled:
    """The records with their objects, and the names of all classes; or why there are none.

    An image that is listed without objects has none; of one that is not listed nothing is known.
    """
    objects, remedy = _objects(root), f"Put instances_val{year}.json into annotations/."
    if objects is None:
        return records, None, f"has no labels. {remedy}"
    ids = [str(record.metadata.get("coco_id")) for record in records]
    known = sum(ident in objects.images for ident in ids)
    if known < len(ids):
        return records, None, f"has {len(ids):,} images, of which the instances file lists {known:,}. {remedy}"
    labelled = [replace(record, labels=objects.seen[ident]) for record, ident in zip(records, ids, strict=True)]
    return labelled, objects.names, ""


def _objects(root: Path) -> _Objects | None:
    """The objects in the val instances files of both years; None without a file."""
    paths = [path for year in ("2014", "2017") if (path := _document(root, f"instances_val{year}.json"))]
    names: dict[int, str] = {}
    images: set[str] = set()
    seen: defaultdict[str, set[str]] = defaultdict(set)
    for path in paths:
        document = json_document(path)
        try:
            names |= {category["id"]: category["name"] for category in document["categories"]}
            images |= {str(image["id"]) for image in document["images"]}
            for annotation in document["annotations"]:
                seen[str(annotation["image_id"])].add(names[annotation["category_id"]])
        except (KeyError, TypeError) as error:
            raise FormatError(f"{path}: not a COCO instances file, it lacks {error}.") from error
    return _Objects([names[number] for number in sorted(names)], images, seen) if paths else None


def _document(root: Path, name: str) -> Path | None:
    """The file of this name, plain or gzipped, in the folder or its annotations/."""
    paths = (folder / file for folder in (root, root / "annotations") for file in (name, f"{name}.gz"))
    return next((path for path in paths if path.is_file()), None)


def _official(root: Path) -> dict[str, Path]:
    """{split: captions file}; 2014 before 2017, the paper's year."""
    paths = {
        split: _document(root, f"captions_{split}2014.json") or _document(root, f"captions_{split}2017.json")
        for split in ("train", "val")
    }
    return {split: path for split, path in paths.items() if path}


def _official_records(path: Path, problems: Problems) -> Iterator[Record]:
    """The images of an official captions file, in file order, below the folder that Karpathy's file would name."""
    document = json_document(path)
    lists = ("images", "annotations")
    if not isinstance(document, dict) or not all(isinstance(document.get(name), list) for name in lists):
        raise FormatError(f"{path}: not a COCO captions file, it lacks images or annotations.")
    captions: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    fields = ("image_id", "id", "caption")
    for image, ident, text in _values(document["annotations"], fields, f"{path.name}:annotations", problems):
        captions[str(image)].append((str(ident), str(text)))
    folder = _folder(path)
    for image, file in _values(document["images"], ("id", "file_name"), f"{path.name}:images", problems):
        listed = captions[str(image)]
        ids, texts = [ident for ident, _ in listed], [text for _, text in listed]
        yield Record(f"{folder}/{file}", texts, ids, metadata={"coco_id": image})


def _folder(captions: Path) -> str:
    """ "val2014", the folder of the images of captions_val2014.json.gz."""
    return captions.name.partition(".")[0].removeprefix("captions_")


def _values(entries: list[Any], fields: Sequence[str], where: str, problems: Problems) -> Iterator[list[Any]]:
    """These fields of every entry; entries that lack one are reported."""
    for number, entry in enumerate(entries):
        try:
            yield [entry[field] for field in fields]
        except (KeyError, TypeError) as error:
            problems.add("row-malformed", f"{where}[{number}]", f"lacks {error}")
