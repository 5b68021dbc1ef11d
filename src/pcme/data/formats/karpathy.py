"""The split files of Karpathy and Fei-Fei (dataset_coco.json, dataset_flickr8k.json, ...30k).

One JSON document: `images`, each with `filename`, `split` and `sentences` (`raw`, `sentid`); COCO's
also with `filepath` and `cocoid`. Nothing is renamed; COCO's `restval` belongs to `train`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pcme.data.problems import Problems
from pcme.data.records import Record
from pcme.data.text_files import json_document
from pcme.errors import FormatError

_SPLIT_OF = {"train": "train", "restval": "train", "val": "val", "test": "test"}


def karpathy_images(path: Path, split: str, problems: Problems) -> list[Mapping[str, Any]]:
    """The images of one split, in file order; entries without name or sentences are reported."""
    document = json_document(path)
    if not isinstance(document, dict) or not isinstance(document.get("images"), list):
        raise FormatError(f'{path}: not a Karpathy split file, it has no list "images".')
    kept = []
    for number, entry in enumerate(document["images"]):
        if not _well_formed(entry):
            problems.add("row-malformed", f"{path.name}:images[{number}]", "lacks a field")
        elif _SPLIT_OF.get(entry["split"]) == split:
            kept.append(entry)
    return kept


def karpathy_record(entry: Mapping[str, Any], name: str, labels: Iterable[str] | None) -> Record:
    """The record of one entry, its image called `name`; COCO's ids become metadata."""
    sentences = [sentence for sentence in entry["sentences"] if "raw" in sentence]
    return Record(
        name,
        [str(sentence["raw"]) for sentence in sentences],
        [str(sentence.get("sentid", f"{name}#{i}")) for i, sentence in enumerate(sentences)],
        labels=labels,
        metadata={"coco_id": entry["cocoid"]} if "cocoid" in entry else {},
    )


def spelled(entry: Mapping[str, Any], patterns: Sequence[str]) -> Iterator[str]:
    """The places an image may be at: each pattern with the entry's filepath and filename."""
    for pattern in patterns:
        yield pattern.format(filepath=entry.get("filepath", ""), filename=entry["filename"])


def first_found(root: Path, places: Iterable[Sequence[str]]) -> int:
    """Which pattern of places fits this folder: that of the first file found; 0 when none is.

    `places` are the possible names of one image after the other; a dataset uses one pattern.
    """
    for names in places:
        for number, name in enumerate(names):
            if (root / name).is_file():
                return number
    return 0


def _well_formed(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("filename"), str)
        and isinstance(entry.get("split"), str)
        and isinstance(entry.get("sentences"), list)
        and all(isinstance(sentence, dict) for sentence in entry["sentences"])
    )
