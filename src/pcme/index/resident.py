"""Resident: the embeddings of an index in memory, in the order of writing, kept up to date."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from pcme.embedding import Embedding, Gaussian, Points
from pcme.index.rows import embedding_of, numbers
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.scores.gallery import best_first

__all__ = ["Resident", "bytes_of"]

SPARE = 0.125
"""Room for new rows, as a share of those that are there, so that not every write copies all."""


def bytes_of(settings: Settings, rows: int) -> int:
    """The memory that so many rows take, with what a scan keeps of them."""
    per_row = 4 * settings.dim * (1 if settings.spread == "none" else 2)
    return rows * per_row * (2 if settings.score.divides_by_sigma else 1)


@dataclass(eq=False)
class Resident:
    """Rows [0, n) by position; `generation` changes with them, `stable` positions did not move."""

    settings: Settings
    ids: list[str] = field(default_factory=list)
    generation: int = 0
    stable: int = 0
    """Positions below it hold what they held in the generation before."""
    lasting: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._version: int | None = None
        self._seq = np.empty(0, np.int64)
        self._mean = torch.empty(0, self.settings.dim)
        width = {"diagonal": self.settings.dim, "isotropic": 1, "none": 0}
        self._log_sigma = torch.empty(0, width[self.settings.spread])

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def embedding(self) -> Embedding:
        """All of them; a view, no copy."""
        mean = self._mean[: len(self)]
        if self.settings.spread == "none":
            return Points(mean[:, None])
        return Gaussian(mean, self._log_sigma[: len(self)])

    def best(
        self, scores: Float[Tensor, "q m"], rows: Int64[Tensor, "q m"], k: int
    ) -> tuple[Float[Tensor, "q k"], Int64[Tensor, "q k"]]:
        """(scores, rows) of the k best, best first; equal scores by the text of their ids."""
        orders = [self._order(*each, k) for each in zip(scores.numpy(), rows.numpy(), strict=True)]
        order = torch.from_numpy(np.stack(orders))
        return scores.gather(1, order), rows.gather(1, order)

    def _order(
        self, scores: Float[np.ndarray, " m"], rows: Int64[np.ndarray, " m"], k: int
    ) -> Int64[np.ndarray, " k"]:
        return best_first(scores, lambda n: self.ids[rows[n]], k)

    def places(self, seq: Int64[np.ndarray, " m"]) -> Int64[np.ndarray, " m"]:
        """The positions of rows that are known by `seq`, ascending; unknown ones are left out."""
        own = self._seq[: len(self)]
        found = np.searchsorted(own, np.sort(seq))
        found = found[found < len(own)]
        kept: Int64[np.ndarray, " m"] = found[np.isin(own[found], seq)]
        return kept

    def refresh(self, store: Store) -> bool:
        """Take over what has changed in the store since the last time; whether anything had."""
        if (version := store.refresh()) == self._version:
            return False
        try:
            self._take_over(store)
        except BaseException:  # half of a change would be worse than nothing
            self.__post_init__()
            self.ids, self.stable = [], 0
            self.generation += 2
            raise
        self._version = version
        self.generation += 1
        return True

    def _take_over(self, store: Store) -> None:
        there = np.sort(store.read(["seq"])["seq"].to_numpy())
        own = self._seq[: len(self)]
        kept = np.isin(own, there, assume_unique=True)
        newest = int(own[-1]) if len(own) else -1
        fresh = int((there > newest).sum())
        self.stable = len(self)
        if not kept.all():
            self.remove(kept)
        if fresh:
            self.reserve(len(self) + fresh)
            self._read(store, newest)

    def remove(self, kept: Bool[np.ndarray, " n"]) -> None:
        """Move rows up into the gaps, block by block: no second copy of all."""
        self.stable = first = int(np.argmin(kept))
        places = first + np.flatnonzero(kept[first:])
        for start in range(0, len(places), 8192):
            some = torch.from_numpy(places[start : start + 8192])
            to = slice(first + start, first + start + len(some))
            self._mean[to] = self._mean[some]
            self._log_sigma[to] = self._log_sigma[some]
            self._seq[to] = self._seq[some.numpy()]
        self.ids[first:] = [self.ids[n] for n in places.tolist()]

    def reserve(self, rows: int) -> None:
        """Make room for so many rows."""
        if rows <= len(self._seq):
            return
        room = rows if not len(self._seq) else int(rows * (1 + SPARE)) + 1024
        self._mean = _grown(self._mean, len(self), room)
        self._log_sigma = _grown(self._log_sigma, len(self), room)
        self._seq = np.concatenate((self._seq[: len(self)], np.empty(room - len(self), np.int64)))

    def _read(self, store: Store, newest: int) -> None:
        """Rows after `newest`; the engine gives them in the order of its pieces, which is ours."""
        columns = ["id", "seq", "mean"]
        columns += [] if self.settings.spread == "none" else ["log_sigma"]
        begin = len(self)
        for table in store.batches(columns, f"seq > {newest}"):
            self.put(embedding_of(table), table["id"].to_pylist(), table["seq"].to_numpy())
        order = np.argsort(self._seq[begin : len(self)], kind="stable")
        if (order[1:] < order[:-1]).any():
            self._reorder(begin, order)

    def put(self, items: Embedding, ids: list[str], seq: Int64[np.ndarray, " m"]) -> None:
        """Write rows behind the last; room was made for them before."""
        mean, log_sigma = numbers(items)
        to = slice(len(self), len(self) + len(ids))
        self._mean[to] = torch.from_numpy(mean)
        if log_sigma is not None:
            self._log_sigma[to] = torch.from_numpy(log_sigma)
        self._seq[to] = seq
        self.ids += ids

    def _reorder(self, begin: int, order: Int64[np.ndarray, " m"]) -> None:
        """By `seq`; needed only after pieces were joined in another order."""
        to, picked = slice(begin, len(self)), torch.from_numpy(begin + order)
        self._mean[to] = self._mean[picked]
        self._log_sigma[to] = self._log_sigma[picked]
        self._seq[to] = self._seq[picked.numpy()]
        self.ids[begin:] = [self.ids[n] for n in picked.tolist()]


def _grown(values: Float32[Tensor, "n d"], used: int, rows: int) -> Float32[Tensor, "m d"]:
    found = torch.empty(rows, values.shape[1])
    found[:used] = values[:used]
    return found
