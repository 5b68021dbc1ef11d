"""Resident: the embeddings of an index in memory, in write order, kept up to date."""

from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped
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


class Resident:
    """Rows 0 to n - 1; `generation` changes with them."""

    lasting: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        self.settings, self.generation = settings, 0
        self._clear()

    def _clear(self) -> None:
        self.ids: list[str] = []
        self.stable = 0
        """Rows below it are what they were in the generation before."""
        self._version: int | None = None
        self._seq = torch.empty(0, dtype=torch.int64)
        self._mean, self._log_sigma = torch.empty(0, self.settings.dim), torch.empty(0, self.settings.sigmas)

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
        known = self._known_seq
        rows = np.searchsorted(known, np.sort(seq))
        rows = rows[rows < len(known)]
        present: Int64[np.ndarray, " m"] = rows[np.isin(known[rows], seq)]
        return present

    @property
    def _known_seq(self) -> Int64[np.ndarray, " n"]:
        known: Int64[np.ndarray, " n"] = self._seq[: len(self)].numpy()
        return known

    def refresh(self, store: Store) -> None:
        """Load the changes since the last refresh."""
        if (version := store.refresh()) == self._version:
            return
        try:
            self._load_changes(store)
        except BaseException:  # half of a change would be worse than nothing
            self._clear()
            self.generation += 2
            raise
        self._version = version
        self.generation += 1

    def _load_changes(self, store: Store) -> None:
        stored = np.sort(store.read(["seq"])["seq"].to_numpy())
        known = self._known_seq
        remaining = np.isin(known, stored, assume_unique=True)
        newest = int(known[-1]) if len(known) else -1
        fresh = int((stored > newest).sum())
        self.stable = len(self)
        if not remaining.all():
            self.remove(remaining)
        if not fresh:
            return
        self.reserve(len(self) + fresh)
        begin = len(self)
        for table in store.batches(store.embedding_columns, f"seq > {newest}"):
            self.put(embedding_of(table), table["id"].to_pylist(), table["seq"].to_numpy())
        order = np.argsort(self._known_seq[begin:], kind="stable")
        if (order[1:] < order[:-1]).any():  # the engine gives rows in the order of its fragments
            self._move(begin, begin + order)
            self.ids[begin:] = [self.ids[begin + n] for n in order.tolist()]

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
        parts = (self._mean, self._log_sigma, self._seq)
        self._mean, self._log_sigma, self._seq = (_grow(part, len(self), room) for part in parts)

    def put(self, items: Embedding, ids: list[str], seq: Int64[np.ndarray, " m"]) -> None:
        """Write rows after the last; room was made for them before."""
        mean, log_sigma = numbers(items)
        to = slice(len(self), len(self) + len(ids))
        self._mean[to] = torch.from_numpy(mean)
        if log_sigma is not None:
            self._log_sigma[to] = torch.from_numpy(log_sigma)
        self._seq.numpy()[to] = seq  # which torch may not take over: it can be read-only
        self.ids += ids

    def _move(self, start: int, rows: Int64[np.ndarray, " m"]) -> None:
        """Copy these rows to those from `start` on, but for their ids."""
        picked = torch.from_numpy(rows)
        for part in (self._mean, self._log_sigma, self._seq):
            part[start : start + len(rows)] = part[picked]


def _grow(values: Shaped[Tensor, "n ..."], used: int, rows: int) -> Shaped[Tensor, "m ..."]:
    grown = values.new_empty(rows, *values.shape[1:])
    grown[:used] = values[:used]
    return grown
