"""Resident: the embeddings of an index in memory, in write order, kept up to date."""

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

SPARE = 0.125
"""Room for new rows, as a share of the present ones, so that not every write copies all."""


def bytes_of(settings: Settings, rows: int) -> int:
    """The memory that this many rows take, with what a scan keeps of them."""
    per_row = 4 * settings.dim * (1 if settings.spread == "none" else 2)
    return rows * per_row * (2 if settings.score.divides_by_sigma else 1)


@dataclass(eq=False)
class Resident:
    """Rows 0 to n - 1; `generation` changes with them, rows below `stable` did not change."""

    settings: Settings
    ids: list[str] = field(default_factory=list)
    generation: int = 0
    stable: int = 0
    """Rows below it are what they were in the generation before."""
    lasting: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._version: int | None = None
        self._seq = np.empty(0, np.int64)
        self._mean = torch.empty(0, self.settings.dim)
        self._log_sigma = torch.empty(0, self.settings.sigmas)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def embedding(self) -> Embedding:
        """All items; a view, not a copy."""
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

    def _order(self, scores: Float[np.ndarray, " m"], rows: Int64[np.ndarray, " m"], k: int) -> Int64[np.ndarray, " k"]:
        return best_first(scores, lambda n: self.ids[rows[n]], k)

    def rows_of(self, seq: Int64[np.ndarray, " m"]) -> Int64[np.ndarray, " m"]:
        """The rows with these `seq`, ascending; unknown ones are left out."""
        known = self._seq[: len(self)]
        rows = np.searchsorted(known, np.sort(seq))
        rows = rows[rows < len(known)]
        present: Int64[np.ndarray, " m"] = rows[np.isin(known[rows], seq)]
        return present

    def refresh(self, store: Store) -> bool:
        """Load changes since the last refresh; return whether there were any."""
        if (version := store.refresh()) == self._version:
            return False
        try:
            self._load_changes(store)
        except BaseException:  # half of a change would be worse than nothing
            self.__post_init__()
            self.ids, self.stable = [], 0
            self.generation += 2
            raise
        self._version = version
        self.generation += 1
        return True

    def _load_changes(self, store: Store) -> None:
        stored = np.sort(store.read(["seq"])["seq"].to_numpy())
        known = self._seq[: len(self)]
        remaining = np.isin(known, stored, assume_unique=True)
        newest = int(known[-1]) if len(known) else -1
        fresh = int((stored > newest).sum())
        self.stable = len(self)
        if not remaining.all():
            self.remove(remaining)
        if fresh:
            self.reserve(len(self) + fresh)
            self._read(store, newest)

    def remove(self, remaining: Bool[np.ndarray, " n"]) -> None:
        """Move the remaining rows up, block by block: no second copy of all."""
        self.stable = first = int(np.argmin(remaining))
        rows = first + np.flatnonzero(remaining[first:])
        for start in range(0, len(rows), 8192):
            self._move(first + start, rows[start : start + 8192])
        self.ids[first:] = [self.ids[n] for n in rows.tolist()]

    def reserve(self, rows: int) -> None:
        """Make room for so many rows."""
        if rows <= len(self._seq):
            return
        room = rows if not len(self._seq) else int(rows * (1 + SPARE)) + 1024
        self._mean, self._log_sigma = (_grow(part, len(self), room) for part in (self._mean, self._log_sigma))
        self._seq = np.concatenate((self._seq[: len(self)], np.empty(room - len(self), np.int64)))

    def put(self, items: Embedding, ids: list[str], seq: Int64[np.ndarray, " m"]) -> None:
        """Write rows after the last; room was made for them before."""
        mean, log_sigma = numbers(items)
        to = slice(len(self), len(self) + len(ids))
        self._mean[to] = torch.from_numpy(mean)
        if log_sigma is not None:
            self._log_sigma[to] = torch.from_numpy(log_sigma)
        self._seq[to] = seq
        self.ids += ids

    def _read(self, store: Store, newest: int) -> None:
        """Read rows after `newest`; the engine gives them in the order of its fragments."""
        begin = len(self)
        for table in store.batches(store.embedding_columns, f"seq > {newest}"):
            self.put(embedding_of(table), table["id"].to_pylist(), table["seq"].to_numpy())
        order = np.argsort(self._seq[begin : len(self)], kind="stable")
        if (order[1:] < order[:-1]).any():  # fragments were merged in another order
            self._move(begin, begin + order)
            self.ids[begin:] = [self.ids[begin + n] for n in order.tolist()]

    def _move(self, start: int, rows: Int64[np.ndarray, " m"]) -> None:
        """Copy these rows to those from `start` on, but for their ids."""
        to, picked = slice(start, start + len(rows)), torch.from_numpy(rows)
        self._mean[to] = self._mean[picked]
        self._log_sigma[to] = self._log_sigma[picked]
        self._seq[to] = self._seq[rows]


def _grow(values: Float32[Tensor, "n d"], used: int, rows: int) -> Float32[Tensor, "m d"]:
    grown = torch.empty(rows, values.shape[1])
    grown[:used] = values[:used]
    return grown
