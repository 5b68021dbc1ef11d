"""Work on an index: what a batcher's thread does with the items of many requests at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pcme.data.problems import Problems
from pcme.embedding import Embedding
from pcme.index import Added, Hits, Item, SearchIndex
from pcme.index.health import Description
from pcme.index.items import Source
from pcme.index.queries import Query
from pcme.index.rows import Kind
from pcme.index.writer import OnConflict


@dataclass(frozen=True)
class OnIndex:
    """Work on one index."""

    index: SearchIndex = field(repr=False)


@dataclass(frozen=True)
class Search(OnIndex):
    """Search for queries, all with these options."""

    k: int
    where: str | None = None
    kind: Kind | None = None
    exact: bool | None = None
    min_coverage: float | None = None
    query_kind: Kind | None = None

    def __call__(self, items: Sequence[Query]) -> list[Hits]:
        """The hits of each query."""
        return self.index.search_many(
            items,
            self.k,
            where=self.where,
            kind=self.kind,
            exact=self.exact,
            min_coverage=self.min_coverage,
            query_kind=self.query_kind,
        )


@dataclass(frozen=True)
class Embed(OnIndex):
    """Embed texts and images."""

    def __call__(self, items: Sequence[Sequence[Query]]) -> list[Embedding]:
        """The embeddings of each list, one row per query."""
        embedded, start, parts = self.index.embed([query for queries in items for query in queries]), 0, []
        for queries in items:
            parts.append(embedded[start : start + len(queries)])
            start += len(queries)
        return parts


@dataclass(frozen=True)
class Get(OnIndex):
    """Read items by id."""

    def __call__(self, items: Sequence[Sequence[str]]) -> list[list[Item]]:
        """The items of each list of ids; unknown ids are left out."""
        found = {item.id: item for item in self.index.items(list(dict.fromkeys(name for ids in items for name in ids)))}
        return [[found[name] for name in ids if name in found] for ids in items]


@dataclass(frozen=True)
class Describe(OnIndex):
    """Describe the index; the item says nothing."""

    def __call__(self, items: Sequence[Any]) -> list[Description]:
        """The same description for all."""
        return [self.index.describe()] * len(items)


@dataclass(frozen=True)
class Addition:
    """Items to be added, and the problems that they turn out to have."""

    source: Source
    on_conflict: OnConflict
    problems: Problems = field(default_factory=Problems)


@dataclass(frozen=True)
class Add(OnIndex):
    """Add items, which are on the disk when this returns."""

    def __call__(self, items: Sequence[Addition]) -> list[tuple[Added, int]]:
        """What was added, and how many items there are then."""
        outcomes = []
        for item in items:
            added = self.index.add(item.source, on_conflict=item.on_conflict, problems=item.problems)
            outcomes.append((added, len(self.index)))
        return outcomes


@dataclass(frozen=True)
class Delete(OnIndex):
    """Delete items by id."""

    def __call__(self, items: Sequence[str]) -> list[tuple[int, int]]:
        """How many were deleted, and how many items there are then."""
        return [(self.index.delete([name]), len(self.index)) for name in items]
