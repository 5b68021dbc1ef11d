"""The search index: images and captions in, hits with probabilities out (docs/guide/search.md)."""

from pcme.index.hits import Hit, Hits, Item, QueryInfo
from pcme.index.items import Embeddings
from pcme.index.search_index import SearchIndex
from pcme.index.writer import Added

__all__ = ["Added", "Embeddings", "Hit", "Hits", "Item", "QueryInfo", "SearchIndex"]
