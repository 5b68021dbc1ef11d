"""ECCV Caption and CxC: more relevant items for COCO's test split than it was written with.

Both come with the package `eccv_caption` (`pip install pcme[eccv]`). Their judgements become relations, so that their
metrics have a value per query like all others, from the same pass.

CxC (Parekh et al. 2021) judges all 5,000 images and 24,972 captions, by recall. ECCV Caption (Chun et al. 2022) has
1,261 images and 1,332 captions with 22,550 and 11,279 relevant items, by mAP@R, R-Precision and recall@1. The package's
PMRP is another measure than the paper's and needs files that it does not bring.
"""

import importlib
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from pcme.data.dataset import CaptionDataset
from pcme.evaluation.ground_truth import Relation
from pcme.retrieval.matches import Matches

Answers = Mapping[int, Sequence[int]]
"""{id of a query: ids of its relevant items}."""


class Judgements:
    """The package's judgements (its `Metrics`) of a split, by COCO's ids."""

    def __init__(self, package: Any, split: CaptionDataset) -> None:  # noqa: ANN401 - no types
        self.package = package
        known = split.metadata or [{}] * len(split.images)
        self.images, self.captions = _rows([entry.get("coco_id") for entry in known]), _rows(split.caption_ids)

    @property
    def absent(self) -> int:
        """How many of the judged images and captions the split lacks."""
        known = self.package.coco_gts
        return len(known["i2t"].keys() - self.images) + len(known["t2i"].keys() - self.captions)

    def relations(self, name: str) -> tuple[Relation, Relation]:
        """Return the judgements called "eccv" or "cxc", for images and for captions as queries."""
        answers = getattr(self.package, f"{name}_gts")
        return (
            _relation(answers["i2t"], self.images, self.captions),
            _relation(answers["t2i"], self.captions, self.images),
        )


@cache
def load_package() -> Any | None:  # noqa: ANN401 - the package has no types
    """Load the package's judge; None where the package is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it prefers ujson, which nothing else here needs
            return importlib.import_module("eccv_caption").Metrics()
    except ImportError:
        return None


def _rows(ids: Sequence[object]) -> dict[int, int]:
    """{COCO's number: row}; items without a number share -1."""
    numbers = [int(ident) if isinstance(ident, int | str) and str(ident).isdigit() else -1 for ident in ids]
    return {number: row for row, number in enumerate(numbers)}


def _relation(answers: Answers, queries: Mapping[int, int], gallery: Mapping[int, int]) -> Relation:
    """Relevant items by row; two judged captions are not among COCO's 25,000."""
    pairs = [(queries[query], gallery[item]) for query, items in answers.items() for item in items if item in gallery]
    sizes = np.zeros(len(queries), np.int64)
    sizes[[queries[query] for query in answers]] = [len(set(items)) for items in answers.values()]
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
    return Relation(Matches.from_pairs(rows, columns, (len(queries), len(gallery))), sizes)
