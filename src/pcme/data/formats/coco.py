"""COCO Captions: the Karpathy splits, or the official annotation files as they are.

With `dataset_coco.json` the splits are the protocol's: train (with restval) 113,287 images, val and test 5,000 each.
Without it they are the official ones, as far as their files are there. Five captions of an image count; the few images
that have more keep their first five, which is how the 25,000 test captions of the 5K protocol come about.

Labels for Plausible-Match R-Precision are the 80 object classes of the instances files, read for
val and test (no measure needs them in training, and that file is 450 MB). Images without any object
stay for recall and drop out of PMRP: see `CaptionDataset.labelled`.

Paper: §4.1, §C.1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from pcme.data.dataset import CaptionDataset
from pcme.data.formats.karpathy import first_found, karpathy_images, karpathy_record, spelled
from pcme.data.layout import Dataset, registry
from pcme.data.problems import Problems
from pcme.data.records import Record, assemble
from pcme.data.sources import Files
from pcme.data.text_files import json_document
from pcme.errors import FormatError

CAPTIONS_PER_IMAGE = 5
_KARPATHY = "dataset_coco.json"
_PLACES = (
    "{filepath}/{filename}",
    "images/{filepath}/{filename}",
    "images/trainval35k/{filename}",
    "images/{filename}",
    "{filename}",
)


@registry.register("coco")
@dataclass(frozen=True)
class COCO(Dataset):
    """COCO Captions: Karpathy or official splits, five captions per image, 80 object classes.

    `need_images=False` loads the captions of images that are not there: for work on text alone.
    """

    layout: ClassVar[str] = (
        "dataset_coco.json (Karpathy) or annotations/captions_*.json, instances_*.json, and the "
        "images in train2014/ val2014/ (or 2017), maybe below images/; .json.gz is read too"
    )
    expected: ClassVar[Mapping[str, int]] = MappingProxyType({"train": 113_287, "val": 5_000, "test": 5_000})
    readings: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {"val": ("pmrp", "1k"), "test": ("pmrp", "1k", "eccv", "cxc")}
    )

    root: Path
    need_images: bool = True

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
        karpathy = _document(self.root, _KARPATHY)
        objects = _objects(self.root) if split != "train" else None
        if karpathy:
            records = self._karpathy_records(karpathy, split, objects, problems)
        else:
            records = self._official_records(_official(self.root)[split], objects, problems)
        return assemble(
            "coco",
            split,
            records,
            lambda names: Files(self.root, names),
            problems,
            captions_per_image=CAPTIONS_PER_IMAGE,
            label_names=objects.names if objects else None,
            need_images=self.need_images,
        )

    def _karpathy_records(
        self, path: Path, split: str, objects: "_Objects | None", problems: Problems
    ) -> Iterator[Record]:
        entries = karpathy_images(path, split, problems)
        place = first_found(self.root, (list(spelled(entry, _PLACES)) for entry in entries))
        for entry in entries:
            name = next(spelled(entry, _PLACES[place:]))
            labels = objects.of(entry.get("cocoid")) if objects else None
            yield karpathy_record(entry, name, labels)

    def _official_records(self, path: Path, objects: "_Objects | None", problems: Problems) -> Iterator[Record]:
        document = _official_document(path)
        captions = _captions_by_image(document, path, problems)
        folder = path.name.partition(".")[0].removeprefix("captions_")
        entries = list(_listed(document, folder, path, problems))
        place = first_found(self.root, (list(spelled(entry, _PLACES)) for entry in entries))
        for entry in entries:
            said = captions.get(entry["id"], [])
            yield Record(
                next(spelled(entry, _PLACES[place:])),
                [text for _, text in said],
                [ident for ident, _ in said],
                labels=objects.of(entry["id"]) if objects else None,
                metadata={"coco_id": entry["id"]},
            )


@dataclass(frozen=True)
class _Objects:
    """The names of the object classes seen in each image, and all names by category id."""

    names: tuple[str, ...]
    seen: Mapping[int, frozenset[str]]

    def of(self, image: object) -> frozenset[str]:
        return self.seen.get(image, frozenset()) if isinstance(image, int) else frozenset()


def _objects(root: Path) -> _Objects | None:
    """The classes of all images of the val instances files; None when there is no such file."""
    found = [path for pattern in ("2014", "2017") if (path := _instances(root, pattern))]
    seen: dict[int, set[str]] = {}
    names: dict[int, str] = {}
    for path in found:
        document = json_document(path)
        try:
            names |= {category["id"]: category["name"] for category in document["categories"]}
            for annotation in document["annotations"]:
                labels = seen.setdefault(annotation["image_id"], set())
                labels.add(names[annotation["category_id"]])
        except (KeyError, TypeError) as error:
            raise FormatError(f"{path}: not a COCO instances file, it lacks {error}.") from error
    ordered = tuple(names[number] for number in sorted(names))
    return _Objects(ordered, {k: frozenset(v) for k, v in seen.items()}) if found else None


def _instances(root: Path, year: str) -> Path | None:
    return _document(root, f"instances_val{year}.json")


def _document(root: Path, name: str) -> Path | None:
    """The file of this name, plain or gzipped, in the folder or its annotations/."""
    for folder in (root, root / "annotations"):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def _official(root: Path) -> dict[str, Path]:
    """{split: captions file}; 2014 before 2017, the paper's year."""
    names = {split: [f"captions_{split}{year}.json" for year in ("2014", "2017")] for split in ("train", "val")}
    return {
        split: path
        for split, options in names.items()
        if (path := next(filter(None, (_document(root, name) for name in options)), None))
    }


def _official_document(path: Path) -> Mapping[str, Any]:
    document = json_document(path)
    lists = ("images", "annotations")
    if not isinstance(document, dict) or not all(isinstance(document.get(k), list) for k in lists):
        raise FormatError(f"{path}: not a COCO captions file, it lacks images or annotations.")
    return document


def _listed(document: Mapping[str, Any], folder: str, path: Path, problems: Problems) -> Iterator[dict[str, Any]]:
    """The images as Karpathy's file would list them."""
    for number, image in enumerate(document["images"]):
        try:
            yield {"filepath": folder, "filename": str(image["file_name"]), "id": image["id"]}
        except (KeyError, TypeError) as error:
            where = f"{path.name}:images[{number}]"
            problems.add("row-malformed", where, f"lacks {error}")


def _captions_by_image(document: Mapping[str, Any], path: Path, problems: Problems) -> dict[int, list[tuple[str, str]]]:
    """{image id: [(annotation id, caption)]}, in file order."""
    found: dict[int, list[tuple[str, str]]] = {}
    for number, annotation in enumerate(document["annotations"]):
        try:
            said = (str(annotation["id"]), str(annotation["caption"]))
            found.setdefault(annotation["image_id"], []).append(said)
        except (KeyError, TypeError) as error:
            where = f"{path.name}:annotations[{number}]"
            problems.add("row-malformed", where, f"lacks {error}")
    return found
