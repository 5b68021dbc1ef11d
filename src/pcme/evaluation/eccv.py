"""ECCV Caption and CxC: more right answers for COCO's test split than it was written with.

Both come with the package `eccv_caption` (`pip install pcme[eccv]`). Their judgements become
relations, so that their metrics have a value for every query like all others, from the same pass.
`official` hands rankings to the package itself, whose figures are the same.

CxC (Parekh et al. 2021) judges all 5,000 images and 24,972 captions, by recall. ECCV Caption (Chun
et al. 2022) has 1,261 images and 1,332 captions with 22,550 and 11,279 right answers, by mAP@R,
R-Precision and recall@1. What that package calls PMRP is another measure than the paper's, and
needs files that it does not bring: it is not computed here.
"""

import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pcme.data.dataset import CaptionDataset
from pcme.errors import ConfigError, DataError
from pcme.evaluation.relations import Relation
from pcme.retrieval.matches import Matches
from pcme.retrieval.ranking import Ranking

__all__ = ["Judgements", "judgements", "official", "retrieved"]

NAMES = {"eccv": "eccv_gts", "cxc": "cxc_gts"}
"""Our names of the judgements, and the package's."""

COMPLETE = ("coco_1k_recalls",)
"""Metrics of the package that need the whole gallery ranked."""
FIGURES = ("coco_5k_recalls", "cxc_recalls", "eccv_r1", "eccv_rprecision", "eccv_map_at_r")

Answers = Mapping[int, Sequence[int]]
"""{id of a query: ids of its right answers}."""


@dataclass(frozen=True)
class Judgements:
    """Relations by name for either direction; `notes` say why there are none."""

    i2t: Mapping[str, Relation] = field(default_factory=dict)
    t2i: Mapping[str, Relation] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def judgements(dataset: CaptionDataset) -> Judgements:
    """What others have judged of this split: nothing but for the whole of COCO's test split."""
    if dataset.where != "coco/test":
        return Judgements()
    judge = _judge()
    if judge is None:
        missing = "the package eccv_caption is not installed - pip install pcme[eccv]"
        return Judgements(notes=(f"no ECCV Caption, no CxC: {missing}",))
    images, captions = _places(_image_ids(dataset)), _places(_caption_ids(dataset))
    absent = len(judge.coco_gts["i2t"].keys() - images.keys())
    absent += len(judge.coco_gts["t2i"].keys() - captions.keys())
    if absent:
        missing = f"{absent:,} of their images and captions are not in {dataset.where}"
        return Judgements(notes=(f"no ECCV Caption, no CxC: {missing}",))
    return Judgements(
        {
            name: _relation(getattr(judge, gts)["i2t"], images, captions)
            for name, gts in NAMES.items()
        },
        {
            name: _relation(getattr(judge, gts)["t2i"], captions, images)
            for name, gts in NAMES.items()
        },
    )


def official(
    i2t: Ranking,
    t2i: Ranking,
    dataset: CaptionDataset,
    *,
    judge: Any = None,  # noqa: ANN401
) -> dict[str, dict[str, float]]:
    """The package's own figures of rankings of COCO's test split: {metric: {direction: share}}.

    Rankings may be cut, but not above the largest number of right answers; COCO 1K is among the
    figures when they are whole. `judge` is an `eccv_caption.Metrics`, the package's by default.
    """
    judge = judge or _judge()
    if judge is None:
        raise ConfigError("the package eccv_caption is not installed - pip install pcme[eccv]")
    images, captions = _image_ids(dataset), _caption_ids(dataset)
    found = {
        "i2t": retrieved(i2t, images, captions),
        "t2i": retrieved(t2i, captions, images),
    }
    for way, ranking in (("i2t", i2t), ("t2i", t2i)):
        _require_depth(ranking, way, judge)
    whole = i2t.depth == len(captions) and t2i.depth == len(images)
    wanted = (*FIGURES, *(COMPLETE if whole else ()))
    figures: dict[str, dict[str, float]] = judge.compute_all_metrics(
        found["i2t"], found["t2i"], target_metrics=wanted
    )
    return figures


def retrieved(
    ranking: Ranking, queries: Sequence[int], gallery: Sequence[int]
) -> dict[int, list[int]]:
    """A ranking by COCO's ids, as the package takes it: {query: gallery items, best first}.

    >>> retrieved(Ranking([[1, 0]], [[0.9, 0.2]]), [17], [500, 501])
    {17: [501, 500]}
    """
    ids = np.asarray(gallery)[ranking.ids.numpy()]
    return dict(zip(queries, ids.tolist(), strict=True))


def _judge() -> Any | None:  # noqa: ANN401 - the package has no types
    """The package's judge, if the package is there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it prefers ujson, which nothing else here needs
            return importlib.import_module("eccv_caption").Metrics()
    except ImportError:
        return None


def _image_ids(dataset: CaptionDataset) -> list[int]:
    known = dataset.metadata or [{}] * len(dataset.images)
    return [_number(entry.get("coco_id")) for entry in known]


def _caption_ids(dataset: CaptionDataset) -> list[int]:
    return [_number(text) for text in dataset.caption_ids]


def _number(ident: object) -> int:
    """COCO's number, or -1 for an item that has none."""
    return int(ident) if isinstance(ident, int | str) and str(ident).isdigit() else -1


def _places(ids: Sequence[int]) -> dict[int, int]:
    return {ident: place for place, ident in enumerate(ids)}


def _relation(answers: Answers, queries: Mapping[int, int], gallery: Mapping[int, int]) -> Relation:
    """Right answers by place; of two images one judged caption is not among COCO's 25,000."""
    pairs = [
        (queries[query], gallery[item])
        for query, items in answers.items()
        for item in items
        if item in gallery
    ]
    sizes = np.zeros(len(queries), np.int64)
    for query, items in answers.items():
        sizes[queries[query]] = len(set(items))
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
    return Relation(Matches.from_pairs(rows, columns, (len(queries), len(gallery))), sizes)


def _require_depth(ranking: Ranking, way: str, judge: Any) -> None:  # noqa: ANN401
    """The package would take the precision of a shorter list for R-Precision."""
    needed = max(10, *(len(items) for items in judge.eccv_gts[way].values()))
    if ranking.depth < needed and ranking.depth != ranking.gallery_size:
        raise DataError(
            f"the {way} ranking is too short for ECCV Caption - it keeps {ranking.depth} items, "
            f"{needed} are needed - rank with k={needed} or more"
        )
