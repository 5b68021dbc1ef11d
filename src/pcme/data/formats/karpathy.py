"""The split files of Karpathy and Fei-Fei (dataset_coco.json, dataset_flickr8k.json, ...30k).

One JSON document: `images`, each with `filename`, `split` and `sentences` (`raw`, `sentid`); COCO's
also with `filepath` and `cocoid`. Nothing is renamed; COCO's `restval` belongs to `train`.
"""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pcme.data.problems import Problems
from pcme.data.records import Record
from pcme.data.text_files import json_document
from pcme.errors import FormatError

_SPLIT_OF = {"train": "train", "restval": "train", "val": "val", "test": "test"}


def karpathy_records(path: Path, split: str, problems: Problems) -> Iterator[Record]:
    """The images of one split, in file order; COCO's ids become metadata."""
    document = json_document(path)
    if not isinstance(document, dict) or not isinstance(document.get("images"), list):
        raise FormatError(f'{path}: not a Karpathy split file, it has no list "images".')
    for number, entry in enumerate(document["images"]):
        if not _well_formed(entry):
            problems.add("row-malformed", f"{path.name}:images[{number}]", "lacks a field")
        elif _SPLIT_OF.get(entry["split"]) == split:
            sentences = [sentence for sentence in entry["sentences"] if "raw" in sentence]
            numbered = all("sentid" in sentence for sentence in sentences)
            yield Record(
                posixpath.join(str(entry.get("filepath", "")), entry["filename"]),
                [str(sentence["raw"]) for sentence in sentences],
                [str(sentence["sentid"]) for sentence in sentences] if numbered else (),
                metadata={"coco_id": entry["cocoid"]} if "cocoid" in entry else {},
            )


def located(records: Iterable[Record], root: Path, patterns: Sequence[str]) -> list[Record]:
    """The records with their images' names below `root`, by the pattern of the first file found.

    In a pattern {path} is an image as it is listed, and {name} the last part of that.
    """
    listed = list(records)
    fitting = (pattern for record in listed for pattern in patterns if (root / _name(record.image, pattern)).is_file())
    pattern = next(fitting, patterns[0])
    return [replace(record, image=_name(record.image, pattern)) for record in listed]


def _name(path: str, pattern: str) -> str:
    return pattern.format(path=path, name=posixpath.basename(path))


def _well_formed(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("filename"), str)
        and isinstance(entry.get("split"), str)
        and isinstance(entry.get("sentences"), list)
        and all(isinstance(sentence, dict) for sentence in entry["sentences"])
    )
