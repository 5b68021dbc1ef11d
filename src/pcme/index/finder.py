"""Finder: the reading half of an index; chooses between exact and approximate search."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pcme.errors import DataError, FormatError
from pcme.index.approximate import Approximate, stream
from pcme.index.exact import InMemory
from pcme.index.hits import Item
from pcme.index.queries import EncodedQuery, Ranked, Request
from pcme.index.resident import bytes_of
from pcme.index.rows import INTERNAL, embedding_of
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.index.tuning import DEPTH, Tuning, tuning_in

SMALL = 50_000
"""Up to this many items every search is exact, unless exact=False is given."""
MEMORY_LIMIT = 4 << 30
"""Bytes of embeddings that exact searches hold in memory; beyond it they are streamed."""
RETRIES = 4
"""Times that a search starts over, in the newest version, after a file could not be read."""

Results = tuple[list[Ranked], dict[str, dict[str, Any]]]
"""The ranked ids of each query, and {id: row} of all items among them."""
T = TypeVar("T")


class Finder:
    """Searches a store; safe in threads, one search at a time."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings, self.store = settings, store
        self.memory = InMemory(settings, store)
        self._approximate: tuple[Tuning, Approximate] | None = None
        self._lock = threading.RLock()

    def search(self, queries: list[EncodedQuery], request: Request, exact: bool | None) -> Results:
        """The k best for each query, in the newest version of the index."""

        def read() -> Results:
            self.store.refresh()
            if not self.store.count():
                raise DataError(f"{self.store.uri}: is empty. Add items first (`pcme index add`).")
            ranked = self._rank(queries, request, exact)
            ids = sorted({name for best in ranked for name in best.ids})
            columns = [name for name in self.store.schema.names if name not in INTERNAL]
            return ranked, {row["id"]: row for row in self.store.with_ids(ids, columns).to_pylist()}

        return self._retry(read)

    def ids(self, where: str | None) -> list[str]:
        """The ids of all items, or of those that match a filter, in write order."""

        def read() -> list[str]:
            self.store.refresh()
            ids: list[str] = self.store.read(["id", "seq"], where).sort_by("seq")["id"].to_pylist()
            return ids

        return self._retry(read)

    def items(self, ids: Sequence[str]) -> list[Item]:
        """The items with these ids, in their order, in the newest version."""

        def read() -> list[Item]:
            self.store.refresh()
            hidden = ("seq", "vector", "check")
            table = self.store.with_ids(ids, [name for name in self.store.schema.names if name not in hidden])
            facts = table.select([name for name in table.column_names if name not in INTERNAL]).to_pylist()
            embedding = embedding_of(table)
            found = {row["id"]: Item.of(row, embedding[n]) for n, row in enumerate(facts)}
            return [found[name] for name in ids if name in found]

        return self._retry(read)

    def true_ids(self, query: EncodedQuery) -> list[str]:
        """The ids of the `DEPTH` best, by exact search in the version that is read."""
        with self._lock:
            return self._exact([query], Request(DEPTH))[0].ids

    def load(self) -> None:
        """Load all embeddings into memory, as far as that goes."""
        with self._lock:
            self.store.refresh()
            if bytes_of(self.settings, self.store.count()) <= MEMORY_LIMIT:
                self.memory.resident.refresh(self.store)

    def _retry(self, read: Callable[[], T]) -> T:
        """Read, and start over where a file has gone: another process may have compacted."""
        for _ in range(RETRIES):
            with suppress(FormatError), self._lock:
                return read()
        with self._lock:
            return read()

    def _rank(self, queries: list[EncodedQuery], request: Request, exact: bool | None) -> list[Ranked]:
        """Approximately where the index is tuned, and either large or exactness is waived."""
        tuning = None if exact else tuning_in(self.store)
        small = self.store.count() <= SMALL
        if tuning is None or (exact is None and (small or not tuning.worthwhile)):
            return self._exact(queries, request)
        if self._approximate is None or self._approximate[0] != tuning:  # another may have replaced the vectors
            self._approximate = tuning, Approximate(self.settings, self.store)
        approximate, effort = self._approximate[1], tuning.chosen.effort
        if not len(self.memory.resident):
            return [approximate.search(query, effort, request) for query in queries]
        # all is in memory anyway, so the scores come from there
        proposed = (approximate.propose(query, effort, ["seq"], request)["seq"].to_numpy() for query in queries)
        return [self.memory.among(query, seq, request) for query, seq in zip(queries, proposed, strict=True)]

    def _exact(self, queries: list[EncodedQuery], request: Request) -> list[Ranked]:
        """In memory as far as that goes, or streamed."""
        if bytes_of(self.settings, self.store.count()) <= MEMORY_LIMIT:
            return self.memory.search(queries, request)
        return [stream(self.store, self.settings.score, query, request) for query in queries]
