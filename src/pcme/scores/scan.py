"""The scan: the exact top k of a gallery without scoring everything.

A scan gives every item a cheap single-precision key and scores the items with the best keys exactly. It accepts a query
when a bound proves that no other item can be as good as the k-th; otherwise the list grows, in the end to all items.
`Score.topk` uses a scan once, on a `Fixed` gallery; an index keeps one, and what it computed from items that stay.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar, Generic, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from pcme.embedding import Embedding
from pcme.kernels import topk
from pcme.kernels.devices import uses_compiled
from pcme.scores.gallery import Gallery, TopK
from pcme.scores.plans import MEMORY_LIMIT, QUERY_ROWS, Plan, Rows, item_blocks, query_blocks

BLOCK = 65536
"""Items for which what keys are computed from is kept together; a multiple of `compiled.TILE`."""
KEY_BYTES = 12 << 20
"""Size of a block of keys and of what they are computed from."""
SCORED = 16384
"""Items that are scored at once for a single query."""
LISTED = 8192
"""Up to so many items a single query is scored pair by pair, beyond by matrix products."""
DENSE = 4096
"""Up to so many items, all are scored: keys would cost as much."""
GROWTH = 8
"""A list of more than an eighth of the items costs more than scoring all of them."""
NEVER = 1 << 62
"""The width of a list that no gallery is long enough for."""
HALF_ULP = 2.0**-24

Prepared = TypeVar("Prepared")
Kept = TypeVar("Kept")
MakePlan = Callable[[Embedding, Embedding], Plan]
Proven = tuple[
    Int64[Tensor, " q"], Int64[Tensor, "q k"], Float[Tensor, "q k"], Int64[Tensor, "q w"], Float[Tensor, "q w"]
]
"""Queries, the rows and scores of their best items, and of all items on their lists."""


class Scan(Generic[Prepared, Kept]):
    """A search by exact scores alone; a subclass brings keys, and a bound, for a family of scores.

    `Prepared` is computed from the queries of a search, `Kept` once per block of items.
    """

    proves: ClassVar[bool] = True
    """Whether `upper` is a bound; without one the first list is accepted."""
    key_width: int = 0
    """Numbers that `keys` computes per item beside the keys themselves."""

    def __init__(self, plan: MakePlan, gallery: Gallery) -> None:
        self.plan, self.gallery = plan, gallery
        self._kept: dict[int, Kept] = {}
        self._generation = -1

    def width(self, k: int) -> int:
        """The length of the first list; without keys, more than there can be."""
        return NEVER

    def prepare(self, queries: Embedding) -> Prepared:
        """The part of the keys that depends on the queries alone."""
        raise NotImplementedError

    def keep(self, items: Embedding) -> Kept | None:
        """The part of the keys of a block that depends on the items alone."""
        return None

    def keys(self, queries: Prepared, items: Embedding, kept: Kept, part: slice) -> Float32[Tensor, "q n"]:
        """Keys of items that are a `part` of the block that `kept` is of; higher is better."""
        raise NotImplementedError

    def upper(self, queries: Embedding, keys: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """Per query, a bound on the score of any item whose key is not larger."""
        return torch.full_like(keys, torch.inf)

    def renew(self) -> None:
        """Called before a search when the items have changed."""

    def top(self, queries: Embedding, k: int, rows: Int64[np.ndarray, " m"] | None = None) -> list[TopK]:
        """The k best of these rows (ascending), or of all, for each query, with their pools."""
        self._follow()
        everything = np.arange(len(self.gallery.embedding)) if rows is None else rows
        results: list[TopK | None] = [None] * len(queries)
        k, plan = min(k, len(everything)), self.plan(queries, self.gallery.embedding)
        for proven in self._shortlist(plan, queries, k, rows, MEMORY_LIMIT):
            for query, best, top, pool, pool_scores in zip(*(part.numpy() for part in proven), strict=True):
                results[query] = TopK(best, top, pool, pool_scores, len(everything))
        return [
            result or self.ranked(queries[query], everything, k, len(everything))
            for query, result in enumerate(results)
        ]

    def ranking(
        self, queries: Embedding, k: int, *, memory_limit: int = MEMORY_LIMIT
    ) -> tuple[Int64[Tensor, "q k"], Float[Tensor, "q k"]]:
        """(rows, scores) of the k best items of each query, temporaries under `memory_limit`."""
        self._follow()
        ids = torch.empty((len(queries), k), dtype=torch.int64)
        scores = torch.empty((len(queries), k), dtype=queries.dtype)
        pending = torch.ones(len(queries), dtype=torch.bool)
        plan = self.plan(queries, self.gallery.embedding)
        for proven, best, top, *_ in self._shortlist(plan, queries, k, None, memory_limit):
            ids[proven], scores[proven], pending[proven] = best, top, False
        for rows, count in _query_parts(plan, pending.nonzero()[:, 0], memory_limit):
            ids[rows], scores[rows] = _stream(plan, rows, count, k, memory_limit)
        return ids, scores

    def ranked(self, query: Embedding, rows: Int64[np.ndarray, " m"], k: int, searched: int) -> TopK:
        """The best of these rows, all of which are scored."""
        scores = self.scores(query, rows)
        top, best = self.gallery.best(scores[None], torch.from_numpy(rows)[None], k)
        return TopK(best[0].numpy(), top[0].numpy(), rows, scores.numpy(), searched)

    def scores(self, query: Embedding, rows: Int64[np.ndarray, " m"]) -> Float[Tensor, " m"]:
        """The exact scores of one query with these rows."""
        self._follow()
        whole = self.gallery.embedding
        items = (whole[torch.from_numpy(rows[i : i + SCORED])] for i in range(0, len(rows), SCORED))
        parts = [score_one(self.plan(query, part)) for part in items]
        return torch.cat(parts) if parts else torch.empty(0, dtype=whole.dtype)

    def all_kept(self) -> list[Kept]:
        """What is kept of every block."""
        whole = self.gallery.embedding
        return [self._kept_of(block, whole) for block in range(-(-len(whole) // BLOCK))]

    def forget(self) -> None:
        """Compute everything again when it is next needed."""
        self._kept = {}

    def _shortlist(
        self, plan: Plan, queries: Embedding, k: int, rows: Int64[np.ndarray, " m"] | None, memory_limit: int
    ) -> Iterator[Proven]:
        """Shortlist, re-rank and prove, with longer lists where unproven; in the end queries may be left over."""
        count = len(self.gallery.embedding) if rows is None else len(rows)
        pending, width = torch.arange(len(queries)), self.width(k)
        while len(pending) and count > DENSE and GROWTH * width <= count:
            unproven = []
            for batch in pending.split(QUERY_ROWS):
                keys, ids = self._best_keys(queries[batch], rows, width)
                scores = _candidates(plan, batch, ids, memory_limit)
                top, best = self.gallery.best(scores, ids, k)
                proven = self._proven(queries[batch], keys[:, -1], top[:, -1])
                yield batch[proven], best[proven], top[proven], ids[proven], scores[proven]
                unproven.append(batch[~proven])
            pending, width = torch.cat(unproven), 4 * width

    def _proven(self, queries: Embedding, keys: Float[Tensor, " q"], least: Float[Tensor, " q"]) -> Bool[Tensor, " q"]:
        """Whether no item outside the list can even tie with the k-th; NaN proves nothing."""
        if not self.proves:
            return torch.ones(len(keys), dtype=torch.bool)
        return self.upper(queries, keys.double()).cpu().to(least.dtype) < least

    def _best_keys(
        self, queries: Embedding, rows: Int64[np.ndarray, " m"] | None, width: int
    ) -> tuple[Float32[Tensor, "q w"], Int64[Tensor, "q w"]]:
        """(keys, rows) of the items with the best keys, best first."""
        whole, prepared = self.gallery.embedding, self.prepare(queries)
        best = topk.BestKeys(len(queries), width, torch.get_num_threads())
        step = KEY_BYTES // (4 * (len(queries) + self.key_width))
        for block, part in _parts(len(whole), max(256, step // 256 * 256)):
            chosen = None if rows is None else _within(rows, part)
            if chosen is None or len(chosen):
                inner = slice(part.start - block * BLOCK, part.stop - block * BLOCK)
                keys = self.keys(prepared, whole[part], self._kept_of(block, whole), inner)
                values = keys.cpu().numpy()
                best.add(values if chosen is None else _only(values, chosen), part.start)
        best_keys, ids = best.result()
        return torch.from_numpy(best_keys), torch.from_numpy(ids)

    def _kept_of(self, block: int, whole: Embedding) -> Kept:
        if block not in self._kept:
            items = whole[block * BLOCK : (block + 1) * BLOCK]
            self._kept[block] = cast("Kept", self.keep(items))
        return self._kept[block]

    def _follow(self) -> None:
        """Forget what was kept of blocks that have changed."""
        gallery = self.gallery
        if self._generation == gallery.generation:
            return
        missed = self._generation != gallery.generation - 1
        whole_blocks = 0 if missed else gallery.stable // BLOCK
        self._kept = {block: kept for block, kept in self._kept.items() if block < whole_blocks}
        self._generation = gallery.generation
        if len(gallery.embedding):
            self.renew()


def score_one(plan: Plan) -> Float[Tensor, " n"]:
    """The scores of a plan's only query: pair by pair for few items, by products for many."""
    count = len(plan.gallery)
    if plan.lists and count <= LISTED:
        only = torch.zeros(1, dtype=torch.int64)
        return plan.candidates(only, torch.arange(count)[None])[0].to(plan.gallery.dtype)
    blocks = item_blocks(plan, 1, MEMORY_LIMIT)
    return torch.cat([plan.block(slice(0, 1), columns)[0] for columns in blocks]).to(plan.gallery.dtype)


def _candidates(
    plan: Plan, queries: Int64[Tensor, " q"], ids: Int64[Tensor, "q m"], memory_limit: int
) -> Float[Tensor, "q m"]:
    """The exact scores of listed items, rounded to the embeddings' precision."""
    step = max(1, memory_limit // 4 // (ids.shape[1] * plan.bytes_per_candidate))
    out = torch.empty(ids.shape, dtype=plan.queries.dtype)
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        out[part] = plan.candidates(queries[part], ids[part])
    return out


def _query_parts(plan: Plan, pending: Int64[Tensor, " p"], memory_limit: int) -> Iterator[tuple[Rows, int]]:
    """The pending queries in parts: the very blocks of the full matrix if all of them are left."""
    if len(pending) == len(plan.queries):
        blocks = query_blocks(plan, memory_limit, whole_rows=False)
        yield from ((rows, rows.stop - rows.start) for rows in blocks)
    elif len(pending):
        yield from ((part, len(part)) for part in pending.split(QUERY_ROWS))


def _stream(
    plan: Plan, rows: Rows, count: int, k: int, memory_limit: int
) -> tuple[Int64[Tensor, "q k"], Float[Tensor, "q k"]]:
    """(rows, scores) of the k best from every score, block by block; ties by row."""
    if not uses_compiled(plan.queries.device):
        return _sort_stream(plan, rows, count, k, memory_limit)
    dtype = np.float32 if plan.queries.dtype == torch.float32 else np.float64
    lowest = np.finfo(dtype).min
    best, ids = np.full((count, k), -np.inf, dtype), np.full((count, k), -1, np.int64)
    for columns in item_blocks(plan, count, memory_limit):
        part = plan.block(rows, columns).to(plan.queries.dtype)
        part = part.clamp_min(float(lowest))  # −∞ must still displace the filler
        topk.merge_topk(part.cpu().numpy(), columns.start, best, ids, torch.get_num_threads())
    best[best == lowest] = -np.inf
    return torch.from_numpy(ids), torch.from_numpy(best)


def _sort_stream(
    plan: Plan, rows: Rows, count: int, k: int, memory_limit: int
) -> tuple[Int64[Tensor, "q k"], Float[Tensor, "q k"]]:
    """`_stream` on any device: a stable sort of the best so far and a block, whose rows come after theirs."""
    device, dtype = plan.queries.device, plan.queries.dtype
    best = torch.empty((count, 0), dtype=dtype, device=device)
    ids = torch.empty((count, 0), dtype=torch.int64, device=device)
    for columns in item_blocks(plan, count, memory_limit // 4):  # a sort holds as much again, and the order
        part = plan.block(rows, columns).to(dtype)
        positions = torch.arange(columns.start, columns.stop, device=device).expand(count, -1)
        best, order = torch.cat((best, part), 1).sort(dim=1, descending=True, stable=True)
        best, ids = best[:, :k], torch.cat((ids, positions), 1).gather(1, order[:, :k])
    return ids.cpu(), best.cpu()


def _parts(count: int, step: int) -> Iterator[tuple[int, slice]]:
    """(block, rows) in steps that stay within a block."""
    for block, start in enumerate(range(0, count, BLOCK)):
        stop = min(count, start + BLOCK)
        yield from ((block, slice(i, min(stop, i + step))) for i in range(start, stop, step))


def _within(rows: Int64[np.ndarray, " m"], part: slice) -> Int64[np.ndarray, " n"]:
    """The rows of a part, counted from its start."""
    first, last = np.searchsorted(rows, (part.start, part.stop))
    inside: Int64[np.ndarray, " n"] = rows[first:last] - part.start
    return inside


def _only(keys: Float32[np.ndarray, "q n"], chosen: Int64[np.ndarray, " m"]) -> Float32[np.ndarray, "q n"]:
    """−∞ for all but the chosen, which then never come first: more are chosen than asked for."""
    masked = np.full_like(keys, -np.inf)
    masked[:, chosen] = keys[:, chosen]
    return masked
