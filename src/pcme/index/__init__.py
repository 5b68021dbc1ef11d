"""The search index: storage and retrieval (docs/guide/search.md)."""

from pcme.index.hits import Asked, Hit, Hits
from pcme.index.search_index import SearchIndex
from pcme.index.writer import Added

__all__ = ["Added", "Asked", "Hit", "Hits", "SearchIndex"]
