"""Service: an index for many clients at once.

One thread searches, and does all that waits for the same work in one pass. Another one writes, with versions of its
own: searches never wait for a write, and see it as soon as it is done.
"""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pcme.embedding import Embedding
from pcme.errors import PcmeError
from pcme.index import Added, Hits, Item, SearchIndex
from pcme.index.health import Description
from pcme.index.queries import Query
from pcme.index.rows import Kind
from pcme.serve import work
from pcme.serve.batching import Batcher, ClosedError, FullError, Work
from pcme.serve.limits import Limits
from pcme.serve.metrics import Metrics
from pcme.serve.problems import Problem

BUSY = {"Retry-After": "1"}
"""The header of an answer that says to try again."""
READY_SECONDS = 2.0


@dataclass(frozen=True)
class Options:
    """How hits are chosen: as in `SearchIndex.search`."""

    k: int = 10
    where: str | None = None
    kind: Kind | None = None
    exact: bool | None = None
    min_coverage: float | None = None


@dataclass
class Service:
    """The index, the threads that work on it, and the limits of both."""

    index: SearchIndex
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        limits = self.limits
        self.index.load()
        self._written = self.index.twin()
        self._uploads = 0
        self.decoding = asyncio.Semaphore(limits.decoded)
        self._searches = Batcher(
            "pcme search", waiting=limits.waiting, batch=limits.batch, linger=limits.linger, observe=self._observe
        )
        self._writes = Batcher("pcme write", waiting=limits.writes)
        self.metrics.watch_queue("search", self._searches)
        self.metrics.watch_queue("write", self._writes)

    def _observe(self, size: int) -> None:
        self.metrics.batch.observe(size)

    async def search(self, query: Query, options: Options, query_kind: Kind | None = None) -> Hits:
        """The hits of one query; `query_kind` is what an embedding is of."""
        chosen = work.Search(
            self.index, options.k, options.where, options.kind, options.exact, options.min_coverage, query_kind
        )
        hits: Hits = await self._answer(chosen, query)
        return hits

    async def embed(self, queries: Sequence[Query]) -> Embedding:
        """The embeddings of texts and images, one row each."""
        embedded: Embedding = await self._answer(work.Embed(self.index), queries)
        return embedded

    async def items(self, ids: list[str]) -> list[Item]:
        """The items with these ids; unknown ones are left out."""
        items: list[Item] = await self._answer(work.Get(self.index), ids)
        return items

    async def item(self, name: str) -> Item:
        """The item with this id, or a problem."""
        items = await self.items([name])
        if not items:
            raise Problem(404, f'id: "{name:.200}" is not in the index.')
        return items[0]

    async def describe(self) -> Description:
        """What the index holds."""
        description: Description = await self._answer(work.Describe(self.index), None)
        return description

    async def add(self, addition: work.Addition) -> tuple[Added, int]:
        """Add items; they are on the disk when this returns. Returns the number of all items, too."""
        added: tuple[Added, int] = await self._written_by(work.Add(self._written), addition)
        return added

    async def delete(self, name: str) -> tuple[int, int]:
        """Delete an item; returns how many were deleted and how many there are."""
        deleted: tuple[int, int] = await self._written_by(work.Delete(self._written), name)
        return deleted

    @contextmanager
    def uploading(self) -> Iterator[None]:
        """A place among the forms that are read at once; a problem when there is none."""
        if self._uploads >= self.limits.uploads:
            count = self.limits.uploads
            raise Problem(429, f"busy: {count} uploads are under way. Try again in a second.", headers=BUSY)
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1

    async def ready(self) -> int:
        """The number of items, once a search would be answered now; a problem otherwise."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                return (await self.describe()).rows
        except TimeoutError:
            raise Problem(503, f"not ready: no answer within {READY_SECONDS:g} s.", headers=BUSY) from None
        except (PcmeError, Problem) as error:
            detail = error.detail if isinstance(error, Problem) else error
            raise Problem(503, f"not ready: {detail}", headers=BUSY) from error

    def close(self) -> None:
        """Finish what waits, and end the threads."""
        self._searches.close()
        self._writes.close()

    async def _answer(self, chosen: Work, item: object) -> Any:  # noqa: ANN401 - as the work decides
        """The result of work that reads."""
        seconds = self.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(_submitted(self._searches, chosen, item))
        except TimeoutError:
            detail = f"the answer took longer than {seconds:g} s. Try again later, or ask for less."
            raise Problem(503, detail, headers=BUSY) from None

    async def _written_by(self, chosen: Work, item: object) -> Any:  # noqa: ANN401 - as the work decides
        """The result of work that writes. It has no time-out: whether something was written must be known.

        The index's own lock waits for another process for a minute, and then says so.
        """
        return await asyncio.wrap_future(_submitted(self._writes, chosen, item))


def _submitted(batcher: Batcher, chosen: Work, item: object) -> Future[Any]:
    try:
        return batcher.submit(chosen, item)
    except FullError:
        waiting = f"{batcher.waiting:,} requests wait already"
        raise Problem(429, f"busy: {waiting}. Try again in a second.", headers=BUSY) from None
    except ClosedError:
        raise Problem(503, "the server is ending. Try again later.", headers=BUSY) from None
