"""Finder: the reading half of an index; chooses how to search, and begins anew when it must."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pcme.errors import DataError, FormatError
from pcme.index.approximate import Approximate, lift_in, streamed
from pcme.index.encoder import Encoder
from pcme.index.exact import InMemory
from pcme.index.resident import bytes_of
from pcme.index.rows import INTERNAL
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.index.tuning import Tuning, tuning_in
from pcme.index.values import Exact
from pcme.index.wanted import Answer, Wanted
from pcme.scores.combine import Calibrate

__all__ = ["MEMORY_LIMIT", "SMALL", "Finder", "Found"]

SMALL = 50_000
"""Up to so many items every search is exact, unless it is told not to be."""
MEMORY_LIMIT = 4 << 30
"""Bytes of embeddings that exact searches keep in memory; beyond it they are streamed."""
TRIES = 4
"""Times that a search begins anew, in the newest version, after a file could not be read."""


T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """The answers to some queries, and all that is known of the items in them, by id."""

    answers: list[Answer]
    known: dict[str, dict[str, Any]]


class Finder:
    """Searches a store; safe in threads, one search at a time."""

    def __init__(self, settings: Settings, store: Store, encoder: Encoder) -> None:
        self.settings, self.store, self.encoder = settings, store, encoder
        self.memory = InMemory(settings, store)
        self._engine: tuple[Tuning, Approximate] | None = None
        self._lock = threading.RLock()

    def found(
        self, wanted: list[Wanted], k: int, *, where: str | None, exact: bool | None
    ) -> Found:
        """The k best for each query, in the newest version of the index."""
        return self._again(lambda: self._found(wanted, k, where, exact))

    def ids(self, where: str | None) -> list[str]:
        """The ids of all items, or of those that match a filter, in the order they were added."""

        def read() -> list[str]:
            with self._lock:
                self.store.version()
                rows = self.store.read(["id", "seq"], where).sort_by("seq")
            found: list[str] = rows["id"].to_pylist()
            return found

        return self._again(read)

    def exact(self, wanted: list[Wanted], k: int, where: str | None = None) -> list[Answer]:
        """The k best by a search through everything: in memory as far as that goes, or streamed."""
        with self._lock:
            if bytes_of(self.settings, self.store.count()) <= MEMORY_LIMIT:
                return self.memory.answers(wanted, k, where=where, calibrate=self._calibrate)
            score = Exact(self.settings.score.create())
            return [
                streamed(self.store, score, one, k, where=where, calibrate=self._calibrate)
                for one in wanted
            ]

    @staticmethod
    def _again(read: Callable[[], T]) -> T:
        """What is read; once more where a file has gone, for perhaps it has been compacted."""
        for _ in range(TRIES):
            with suppress(FormatError):
                return read()
        return read()

    def load(self) -> None:
        """Take all embeddings into memory."""
        with self._lock:
            self.memory.resident.refresh(self.store)

    def _found(self, wanted: list[Wanted], k: int, where: str | None, exact: bool | None) -> Found:
        with self._lock:
            self.store.version()
            if not self.store.count():
                raise DataError(
                    f"{self.store.uri} is empty - add something first (`pcme index add`)"
                )
            answers = self._answers(wanted, k, where, exact)
            ids = sorted({one for answer in answers for one in answer.ids})
            columns = [name for name in self.store.schema.names if name not in INTERNAL]
            rows = self.store.with_ids(ids, columns).to_pylist()
        return Found(answers, {row["id"]: row for row in rows})

    def _answers(
        self, wanted: list[Wanted], k: int, where: str | None, exact: bool | None
    ) -> list[Answer]:
        """By the engine where it was tuned and the index is large, or exactness is waived."""
        tuning = None if exact else tuning_in(self.store)
        small = self.store.count() <= SMALL
        if tuning is None or (exact is None and (small or not tuning.worthwhile)):
            return self.exact(wanted, k, where)
        return [self._approximately(one, k, where, tuning) for one in wanted]

    def _approximately(self, one: Wanted, k: int, where: str | None, tuning: Tuning) -> Answer:
        """Proposals by the engine; their scores from memory, if all is there anyway."""
        engine, effort = self._engine_of(tuning), tuning.chosen.effort
        if not len(self.memory.resident):
            return engine.answer(one, k, effort, where=where, calibrate=self._calibrate)
        wider = replace(effort, shortlist=max(k, effort.shortlist))
        seq = engine.proposed(one, wider, ["seq"], where)["seq"].to_numpy()
        return self.memory.among(one, seq, k, where=where, calibrate=self._calibrate)

    def _engine_of(self, tuning: Tuning) -> Approximate:
        """Made anew whenever the index was tuned anew: its vectors are then others."""
        if self._engine is None or self._engine[0] != tuning:
            lift = lift_in(self.settings, self.store)
            assert lift is not None  # it was tuned
            self._engine = tuning, Approximate(self.settings, self.store, lift)
        return self._engine[1]

    @property
    def _calibrate(self) -> Calibrate | None:
        confidence = self.encoder.confidence
        return None if confidence is None else confidence.log_probability
