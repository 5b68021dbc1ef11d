"""`topk` without the full matrix: shortlist, exact re-rank, proof; longer lists where unproven."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pcme.embedding import Embedding, Gaussian
from pcme.kernels import compiled
from pcme.scores.plans import QUERY_ROWS, Plan, Rows, Shortlist, item_blocks, query_blocks

GROWTH_LIMIT = 16
"""A list longer than 1/16 of the gallery costs more than all of its scores."""
KEY_BYTES = 12 << 20
"""Size of a block of single-precision keys and what they are made of."""


@dataclass
class Search:
    """The state of one `topk`."""

    plan: Plan
    k: int
    memory_limit: int
    exact: bool

    def run(self) -> tuple[Tensor, Tensor]:
        """(ids, scores), [Q, k] each, sorted; ties by id."""
        queries, items = len(self.plan.queries), len(self.plan.gallery)
        self.scores = _empty((queries, self.k), self.plan.queries)
        self.ids = torch.empty((queries, self.k), dtype=torch.int64)
        pending = torch.arange(queries)
        shortlist = self.plan.shortlist(self.k) if items > 8 * self.k + 256 else None
        if shortlist is not None and (shortlist.bounded or not self.exact):
            width = shortlist.width
            while len(pending) and GROWTH_LIMIT * width <= items:
                pending = self._round(shortlist, pending, width)
                width *= 4
        if len(pending):
            self._dense(pending)
        return self.ids, self.scores

    def _round(self, shortlist: Shortlist, pending: Tensor, width: int) -> Tensor:
        """One pass over the gallery for the pending queries; returns those still unproven."""
        unproven = []
        for rows in pending.split(QUERY_ROWS):
            keys, ids = self._best_keys(shortlist, rows, width)
            scores = self._exact(rows, ids)
            top, order = _sort(scores, ids, self.k)
            self.scores[rows], self.ids[rows] = top, order
            if self.exact:
                bound = shortlist.upper(rows, keys[:, -1].to(torch.float64)).to(top.dtype)
                unproven.append(rows[~(bound < top[:, -1]).cpu()])  # NaN proves nothing
        return torch.cat(unproven) if unproven else pending[:0]

    def _best_keys(self, shortlist: Shortlist, rows: Tensor, width: int) -> tuple[Tensor, Tensor]:
        left = shortlist.queries[rows]
        best = compiled.BestKeys(len(rows), width, torch.get_num_threads())
        step = max(256, KEY_BYTES // (4 * (len(rows) + left.shape[1])))
        for start in range(0, len(self.plan.gallery), step):
            part = shortlist.items(slice(start, start + step))
            best.add(torch.addmm(part.offset, left, part.vectors.T).cpu().numpy(), start)
        keys, ids = best.result()
        return torch.from_numpy(keys), torch.from_numpy(ids)

    def _exact(self, rows: Tensor, ids: Tensor) -> Tensor:
        step = max(1, self.memory_limit // 4 // (ids.shape[1] * self.plan.bytes_per_candidate))
        out = _empty(ids.shape, self.plan.queries)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            out[part] = self.plan.candidates(rows[part], ids[part])
        return out

    def _dense(self, pending: Tensor) -> None:
        """Every score, streamed, in the very blocks of the full matrix if all rows are pending."""
        if len(pending) == len(self.plan.queries):
            for rows in query_blocks(self.plan, self.memory_limit, whole_rows=False):
                self._dense_rows(rows, rows.stop - rows.start)
            return
        for some in pending.split(QUERY_ROWS):
            self._dense_rows(some, len(some))

    def _dense_rows(self, rows: Rows, count: int) -> None:
        best = np.full((count, self.k), -np.inf, _numpy_dtype(self.scores.dtype))
        ids = np.full((count, self.k), -1, np.int64)
        for columns in item_blocks(self.plan, count, self.memory_limit):
            part = self.plan.block(rows, columns).to(self.scores.dtype)
            part = part.clamp_min(torch.finfo(part.dtype).min)  # −∞ must still displace the filler
            compiled.merge_topk(
                part.cpu().numpy(), columns.start, best, ids, torch.get_num_threads()
            )
        best[best == np.finfo(best.dtype).min] = -np.inf
        self.scores[rows], self.ids[rows] = torch.from_numpy(best), torch.from_numpy(ids)


def _sort(scores: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """By score, ties by id: a stable sort of what is first sorted by id."""
    ids, by_id = ids.sort(dim=1)
    top, order = scores.gather(1, by_id).sort(dim=1, descending=True, stable=True)
    return top[:, :k], ids.gather(1, order)[:, :k]


def _empty(shape: tuple[int, ...] | torch.Size, like: Embedding) -> Tensor:
    dtype = like.mean.dtype if isinstance(like, Gaussian) else like.x.dtype
    return torch.empty(shape, dtype=dtype)


def _numpy_dtype(dtype: torch.dtype) -> type[np.floating]:
    return np.float32 if dtype == torch.float32 else np.float64
