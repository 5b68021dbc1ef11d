"""From what a person asks to what an index compares: text, pictures, embeddings, combinations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError, DataError
from pcme.index.encoder import Encoder
from pcme.index.rows import Kind
from pcme.index.settings import Settings
from pcme.index.wanted import Side, Wanted
from pcme.scores import combine

__all__ = ["Query", "Reader", "combined"]

Query = str | Path | Image.Image | Embedding | combine.Query
"""Text, an image (a path or a PIL image), an embedding, or a combination of these."""
SIDES: dict[Kind, Side] = {"image": "images", "caption": "captions"}
"""Which side of the model an item of this kind comes through."""


def combined(
    query: Query | None,
    all_of: Sequence[Query] = (),
    any_of: Sequence[Query] = (),
    but_not: Sequence[Query] = (),
) -> Query:
    """(query and all of these) or any of these, but none of those."""
    together = [*([] if query is None else [query]), *all_of]
    either = [*([_one_or(combine.all_of, together)] if together else []), *any_of]
    if not either:
        raise ConfigError("nothing was asked for - give a query, all_of or any_of")
    found = _one_or(combine.any_of, either)
    return combine.but_not(found, combine.any_of(but_not)) if but_not else found


def _one_or(join: Callable[[Sequence[Query]], Query], parts: Sequence[Query]) -> Query:
    """A part alone is itself: no combination, of which less would be known."""
    return parts[0] if len(parts) == 1 else join(parts)


@dataclass(frozen=True)
class Reader:
    """Reads queries with the model of an index."""

    settings: Settings
    encoder: Encoder

    def wanted(self, query: Query, kind: Kind | None = None) -> Wanted:
        """The query, encoded; `kind` says what a query is of that is an embedding already."""
        if isinstance(query, Gaussian | Points):
            return Wanted(self._fitted(query), side=None if kind is None else SIDES[kind])
        if not isinstance(query, combine.Query):
            return self._single(query)
        notes: list[str] = []

        def encode(item: object) -> Embedding:
            one = self._single(item)
            notes.extend([one.note] if one.note else [])
            assert one.embedding is not None
            return one.embedding

        encoded = query.encoded(encode)
        note = "; ".join(notes) or None
        if isinstance(encoded, combine.One):
            return Wanted(self._fitted(encoded.embedding), note=note)
        return Wanted(None, encoded, note=note)

    def single(self, query: Query) -> Embedding:
        """The embedding of a query that is no combination."""
        found = self.wanted(query).embedding
        if found is None:
            raise ConfigError("a combination of queries has no embedding of its own")
        return found

    def _single(self, query: object) -> Wanted:
        if isinstance(query, str):
            embedding, note = self.encoder.text(query)
            return Wanted(self._fitted(embedding), side="captions", note=note)
        if isinstance(query, Path | Image.Image):
            return Wanted(self._fitted(self.encoder.pictures([query])), side="images")
        if isinstance(query, Gaussian | Points):
            return Wanted(self._fitted(query))
        raise ConfigError(
            "a query is text, a picture (a Path or an image), a Gaussian, Points, or a combination "
            f"of them - got {type(query).__name__}"
        )

    def _fitted(self, query: Embedding) -> Embedding:
        if len(query) != 1:
            raise DataError(f"a query is one item - got {len(query)} - use search_many")
        return self.settings.fitted(query, "the query")
