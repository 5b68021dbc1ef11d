"""Results of an evaluation: the per-query values of every metric, and their means. Paper: §4.1.1.

Means, intervals, tests against another model and plots over bins of σ all follow from these values. A query without a
relevant item has NaN.
"""

import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped, UInt8

from pcme.core import files
from pcme.errors import ConfigError, FormatError

FOLDED = "1k "
"""The prefix of values of COCO's folds: averaged within each fold, then over all."""
RECALLS = ("recall@1", "recall@5", "recall@10")
"""The terms of rsum."""
RANKS = ("median_rank", "mean_rank")

FORMAT = "pcme-evaluation-1"
ABOUT = ("dataset", "score", "parameters", "digest", "notes", "labels")
DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What reading something that is no evaluation, or one with other bytes, ends in."""
DIRECTIONS: tuple["DirectionName", "DirectionName"] = ("i2t", "t2i")

DirectionName = Literal["i2t", "t2i"]
PerQuery = Float64[np.ndarray, " q"]


@dataclass(frozen=True, eq=False)
class Direction:
    """The per-query values of every metric in one direction.

    `rank` is that of the first relevant item, from 1. `clusters` and `folds` number queries that belong together: by
    class, or by image without classes, and by fold (-1: none).
    """

    values: Mapping[str, PerQuery]
    ids: tuple[str, ...]
    gallery: int
    clusters: Int64[np.ndarray, " q"]
    folds: Int64[np.ndarray, " q"]

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, name: str) -> PerQuery:
        """The values called `name`, or an error that lists those there are."""
        if name not in self.values:
            raise ConfigError(
                f"{name}: not a metric of this evaluation. Known: {', '.join(self.values)}. "
                "PMRP needs labels, 1k and eccv need COCO's test split."
            )
        return self.values[name]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Every metric's mean: shares from 0 to 1, ranks, and rsum from 0 to 3."""
        return {name: self.metric(name) for name in metric_names(self.values)}

    def metric(self, name: str) -> float:
        """Return one metric: a mean, "median_rank", "mean_rank", or "rsum" of this direction."""
        prefix, base = split_name(name)
        if base == "rsum":
            return sum(self.metric(prefix + part) for part in RECALLS)
        values = self.per_query(name)
        parts = [values[rows & ~np.isnan(values)] for rows in self.parts(name)]
        median = base == "median_rank"  # rounded down, as the protocol does
        middles = [np.floor(np.median(part)) if median else part.mean() for part in parts if len(part)]
        return float(np.mean(middles)) if middles else math.nan

    def per_query(self, metric: str) -> PerQuery:
        """The values that a metric averages; for rsum the sums of the three recalls."""
        prefix, base = split_name(metric)
        if base == "rsum":
            return np.asarray(np.sum([self.of(prefix + part) for part in RECALLS], axis=0))
        return self.of(prefix + ("rank" if base in RANKS else base))

    def parts(self, metric: str) -> list[Bool[np.ndarray, " q"]]:
        """Which queries a metric averages together: all, or those of each fold."""
        if not metric.startswith(FOLDED):
            return [np.ones(len(self), np.bool_)]
        return [self.folds == fold for fold in range(self.folds.max() + 1)]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The evaluation of one score on one split, in both directions."""

    dataset: str
    """The dataset and its split, as in "cub/test"."""
    score: str
    parameters: Mapping[str, Any]
    """Of the score, such as its scale and shift."""
    i2t: Direction
    t2i: Direction
    digest: str
    """The protocol's: equal for evaluations of the same queries and relevant items."""
    notes: tuple[str, ...] = ()
    labels: str = ""
    """The protocol's digest of the labels; old files have none."""

    @property
    def queries(self) -> int:
        """How many captions there are: the queries of t2i, the gallery of i2t."""
        return len(self.t2i)

    @property
    def gallery(self) -> int:
        """How many images there are: the gallery of t2i, the queries of i2t."""
        return self.t2i.gallery

    def direction(self, name: DirectionName) -> Direction:
        """One of the two directions."""
        return self.i2t if name == "i2t" else self.t2i

    @property
    def rsum(self) -> float:
        """The sum of recall@1, 5 and 10 of both directions in per cent, from 0 to 600."""
        return 100 * (self.i2t.metric("rsum") + self.t2i.metric("rsum"))

    def record(self) -> dict[str, Any]:
        """What `pcme evaluate --json` prints: figures, the score's name, captions and images."""
        record: dict[str, Any] = {}
        for way in DIRECTIONS:  # JSON has no NaN
            metrics = self.direction(way).metrics.items()
            record[way] = {name: value if math.isfinite(value) else None for name, value in metrics}
        return record | {"score": self.score, "queries": self.queries, "gallery": self.gallery}

    def save(self, path: str | Path) -> None:
        """Write every value to one .npz file, atomically (no pickle)."""
        about = {"format": FORMAT, **{name: getattr(self, name) for name in ABOUT}}
        arrays: dict[str, Shaped[np.ndarray, ...]] = {}
        for way in DIRECTIONS:
            direction = self.direction(way)
            about[way] = direction.gallery
            arrays |= {f"{way}/values/{name}": values for name, values in direction.values.items()}
            # as one text: an array of strings is as wide as its longest one
            arrays[f"{way}/ids"] = _bytes(json.dumps(direction.ids))
            arrays |= {f"{way}/clusters": direction.clusters, f"{way}/folds": direction.folds}
        arrays["about"] = _bytes(json.dumps(about))
        try:
            with files.replacing(Path(path)) as draft, draft.open("wb") as stream:
                np.savez_compressed(stream, allow_pickle=False, **arrays)
        except OSError as error:
            raise FormatError(f"{path}: cannot be written, {error.strerror or error}. Is its folder there?") from error

    @staticmethod
    def load(path: str | Path) -> "Evaluation":
        """Read what `save` wrote, bit for bit."""
        try:
            # Opened here: numpy leaves a file open whose list of contents it cannot read.
            with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = dict(file)
            about = json.loads(_text(arrays["about"]))
            if about.pop("format") != FORMAT:
                raise ValueError("another format")
            ways = {way: _direction(arrays, way, about.pop(way)) for way in DIRECTIONS}
            return Evaluation(**{**about, **ways, "notes": tuple(about["notes"])})
        except DAMAGED as error:
            message = f"{path}: not a saved evaluation, {error}. Write one with `pcme evaluate --out`."
            raise FormatError(message) from error


def metric_names(values: Mapping[str, object]) -> list[str]:
    """The figures that follow from values of these names, in the order of the values.

    >>> metric_names({"recall@1": 0, "recall@5": 0, "recall@10": 0, "rank": 0})
    ['recall@1', 'recall@5', 'recall@10', 'rsum', 'median_rank', 'mean_rank']
    """
    names = []
    for name in values:
        prefix, base = split_name(name)
        names += [f"{prefix}median_rank", f"{prefix}mean_rank"] if base == "rank" else [name]
        if base == RECALLS[-1] and all(prefix + part in values for part in RECALLS):
            names.append(f"{prefix}rsum")
    return names


def split_name(name: str) -> tuple[str, str]:
    """ "1k recall@1" is ("1k ", "recall@1")."""
    prefix, space, base = name.rpartition(" ")
    return prefix + space, base


def _direction(arrays: Mapping[str, Shaped[np.ndarray, "..."]], way: DirectionName, gallery: int) -> Direction:
    start = f"{way}/values/"
    values = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
    ids = tuple(json.loads(_text(arrays[f"{way}/ids"])))
    return Direction(values, ids, gallery, arrays[f"{way}/clusters"], arrays[f"{way}/folds"])


def _bytes(text: str) -> UInt8[np.ndarray, " n"]:
    return np.frombuffer(text.encode("ascii"), np.uint8)


def _text(array: UInt8[np.ndarray, " n"]) -> str:
    return array.tobytes().decode("ascii")
