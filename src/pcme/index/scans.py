"""Scans: the exact top k of everything that is in memory, without scoring everything.

A scan gives every item a cheap single-precision key, takes the best of them, scores those exactly,
and is done when a bound proves that no other item can be as good as the k-th; else it takes more of
them, in the end all. The result is that of `Score.topk`; equal scores go by id.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from pcme.embedding import Embedding
from pcme.index.resident import Resident
from pcme.index.values import Exact
from pcme.kernels import compiled
from pcme.scores.base import Score

__all__ = ["BLOCK", "SCORED", "Found", "PlainScan", "Scan", "best_first"]

BLOCK = 65536
"""Items that are given keys at once, and for which what keys are made of is kept."""
SCORED = 16384
"""Items that are scored at once."""
DENSE = 4096
"""Up to so many items, all are scored: that costs no more than finding out which need not be."""
GROWTH = 8
"""A list of more than an eighth of the items costs more than all of their scores."""

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Found:
    """The best items of a query by place, best first; `pool` are all whose scores became known."""

    places: Int64[np.ndarray, " k"]
    scores: Float32[np.ndarray, " k"]
    pool: Int64[np.ndarray, " m"]
    pool_scores: Float32[np.ndarray, " m"]
    searched: int
    """Among how many items."""


class Scan(ABC, Generic[Made]):
    """Keys and a bound for one family of scores; what is made of items is kept, block by block."""

    def __init__(self, score: Score, resident: Resident) -> None:
        self.score, self.resident = score, resident
        self.exact = Exact(score)
        self._kept: dict[int, Made] = {}
        self._generation = -1

    def top(
        self, queries: Embedding, k: int, rows: Int64[np.ndarray, " m"] | None = None
    ) -> list[Found]:
        """The k best of these rows (ascending), or of all, for each query."""
        self._follow()
        count = len(self.resident) if rows is None else len(rows)
        found: dict[int, Found] = {}
        pending = list(range(len(queries)))
        width = self.width(min(k, count))
        while pending and count > DENSE and width * GROWTH <= count:
            keys, places = self._best(queries[pending], rows, width)
            # Rounded as scores are: an item at the bound may not tie with the k-th either.
            bounds = self.upper(queries[pending], torch.from_numpy(keys[:, -1]).double()).float()
            for n, query in enumerate(pending):
                tried = self.ranked(queries[query], places[n], k, count)
                if bounds[n] < tried.scores[-1].item():  # NaN proves nothing
                    found[query] = tried
            pending = [query for query in pending if query not in found]
            width *= 4
        everything = np.arange(len(self.resident)) if rows is None else rows
        for query in pending:
            found[query] = self.ranked(queries[query], everything, k, count)
        return [found[query] for query in range(len(queries))]

    def ranked(
        self, query: Embedding, places: Int64[np.ndarray, " m"], k: int, count: int
    ) -> Found:
        """The best of these places, all of which are scored."""
        scores = self.scores(query, places)
        order = best_first(scores, lambda n: self.resident.ids[places[n]], k)
        return Found(places[order], scores[order], places, scores, count)

    def scores(
        self, query: Embedding, places: Int64[np.ndarray, " m"]
    ) -> Float32[np.ndarray, " m"]:
        """The exact scores of the items in these places."""
        self._follow()
        whole = self.resident.embedding
        parts = [
            self.exact(query, whole[torch.from_numpy(places[i : i + SCORED])]).numpy()
            for i in range(0, len(places), SCORED)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.float32)

    def width(self, k: int) -> int:
        """How many candidates to begin with."""
        return 2 * k + 64

    @abstractmethod
    def made(self, items: Embedding) -> Made:
        """What the keys of a block of items are made of."""

    @abstractmethod
    def keys(self, queries: Embedding, items: Embedding, made: Made) -> Float32[Tensor, "q n"]:
        """A key for each query and item; higher is better."""

    @abstractmethod
    def upper(self, queries: Embedding, keys: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """For each query: no item whose key is not larger has a larger score."""

    def renewed(self) -> None:
        """Called before a search when the items have changed."""

    def forget(self) -> None:
        """Make everything anew when it is next needed."""
        self._kept = {}

    def all_made(self) -> list[Made]:
        """What was made of every block."""
        whole = self.resident.embedding
        return [self._made(n, whole[part]) for n, part in enumerate(_blocks(len(whole)))]

    def _best(
        self, queries: Embedding, rows: Int64[np.ndarray, " m"] | None, width: int
    ) -> tuple[Float32[np.ndarray, "q w"], Int64[np.ndarray, "q w"]]:
        """(keys, places) of the items with the best keys, best first."""
        best = compiled.BestKeys(len(queries), width, torch.get_num_threads())
        whole = self.resident.embedding
        for block, part in enumerate(_blocks(len(whole))):
            chosen = None if rows is None else _within(rows, part)
            if chosen is None or len(chosen):
                keys = self.keys(queries, whole[part], self._made(block, whole[part])).numpy()
                best.add(keys if chosen is None else _only(keys, chosen), part.start)
        return best.result()

    def _made(self, block: int, items: Embedding) -> Made:
        if block not in self._kept:
            self._kept[block] = self.made(items)
        return self._kept[block]

    def _follow(self) -> None:
        """Forget what was made of blocks that have changed."""
        if self._generation == self.resident.generation:
            return
        missed = self._generation != self.resident.generation - 1
        whole_blocks = 0 if missed else self.resident.stable // BLOCK
        self._kept = {block: made for block, made in self._kept.items() if block < whole_blocks}
        self._generation = self.resident.generation
        if len(self.resident):
            self.renewed()


class PlainScan(Scan[None]):
    """For scores without a bound: all items are scored."""

    def width(self, k: int) -> int:
        """More than there can be."""
        return 1 << 62

    def made(self, items: Embedding) -> None:
        """Nothing."""

    def keys(self, queries: Embedding, items: Embedding, made: None) -> Float32[Tensor, "q n"]:
        """Never asked for: no list is as long as `width`."""
        raise NotImplementedError

    def upper(self, queries: Embedding, keys: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """Nothing is promised."""
        return torch.full_like(keys, torch.inf)


def best_first(
    scores: Float[np.ndarray, " m"], name: Callable[[int], str], k: int
) -> Int64[np.ndarray, " k"]:
    """The places of the k highest scores, best first; equal ones by the name of their place.

    >>> best_first(np.array([0.5, 2.0, 0.5], np.float32), "cab".__getitem__, 2)
    array([1, 2])
    """
    k = min(k, len(scores))
    if not k:
        return np.empty(0, np.int64)
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    candidates = np.flatnonzero(scores >= least).tolist()
    candidates.sort(key=lambda n: (-scores[n], name(n)))
    return np.array(candidates[:k], np.int64)


def _blocks(count: int) -> list[slice]:
    return [slice(start, min(count, start + BLOCK)) for start in range(0, count, BLOCK)]


def _within(rows: Int64[np.ndarray, " m"], part: slice) -> Int64[np.ndarray, " n"]:
    """The rows of a block, counted from its start."""
    first, last = np.searchsorted(rows, (part.start, part.stop))
    found: Int64[np.ndarray, " n"] = rows[first:last] - part.start
    return found


def _only(
    keys: Float32[np.ndarray, "q n"], chosen: Int64[np.ndarray, " m"]
) -> Float32[np.ndarray, "q n"]:
    """−∞ for all but the chosen, which then never come first: there are more chosen than asked."""
    found = np.full_like(keys, -np.inf)
    found[:, chosen] = keys[:, chosen]
    return found
