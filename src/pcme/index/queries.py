"""Queries: text, images, embeddings and combinations, encoded to be compared with items."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from pcme.embedding import Embedding, Gaussian, Points, joined
from pcme.errors import ConfigError, DataError
from pcme.index.encoder import Encoder
from pcme.index.rows import Kind
from pcme.index.settings import POINT, Settings
from pcme.scores import combine
from pcme.scores.base import Score
from pcme.scores.combine import Calibrate
from pcme.uncertainty import Side

Query = str | Path | Image.Image | Embedding | combine.Query
"""Text, an image (a path or a PIL image), an embedding, or a combination of these."""

SIDES: dict[Kind, Side] = {"image": "images", "caption": "captions"}
"""The side of the model that encodes items of this kind."""


@dataclass(frozen=True)
class Request:
    """The number of items to find, a filter, and the calibration of combined queries."""

    k: int
    where: str | None = None
    calibrate: Calibrate | None = None


@dataclass(frozen=True, eq=False)
class EncodedQuery:
    """One embedding, or a combination of several."""

    embedding: Embedding | None
    combined: combine.Query | None = None
    side: Side | None = None
    """The side of the model that encoded it, if known."""
    note: str | None = None

    def proposals(self) -> list[Embedding]:
        """Embeddings near which every match is found."""
        if self.combined is not None:
            return self.combined.proposals()
        assert self.embedding is not None
        return [self.embedding]

    def scores(self, items: Embedding, score: Score, calibrate: Calibrate | None) -> Float[np.ndarray, " n"]:
        """The scores that decide; those of a combination are calibrated already, where possible."""
        if self.combined is not None:
            return self.combined.log_probability(score, items, calibrate=calibrate)
        assert self.embedding is not None
        return score.each(self.embedding, items).numpy()

    def uncertainty(self) -> float | None:
        """The geometric mean of σ; None for a point and for a combination."""
        if not isinstance(self.embedding, Gaussian) or (self.embedding.log_sigma <= POINT).all():
            return None
        return float(self.embedding.uncertainty()[0])


@dataclass(frozen=True, eq=False)
class Ranked:
    """The best ids of a query with their scores, best first, and what is known of the rest."""

    ids: list[str]
    scores: Float[np.ndarray, " k"]
    uncertainty: Float[Tensor, " k"] | None
    pool: Float[np.ndarray, " m"]
    """All scores that became known on the way."""
    sample: Float[np.ndarray, " s"]
    """Scores of some of the others, drawn evenly."""
    searched: int
    exact: bool

    def expected_matches(self, probability: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]]) -> float:
        """Σ p over all items searched: that of the pool, the rest estimated by the sample."""
        total = float(probability(self.pool).sum())
        if rest := self.searched - len(self.pool):
            total += rest * float(probability(self.sample).mean()) if len(self.sample) else 0.0
        return total


def combine_queries(
    query: Query | None, all_of: Sequence[Query] = (), any_of: Sequence[Query] = (), but_not: Sequence[Query] = ()
) -> combine.Query:
    """(query and all of `all_of`) or any of `any_of`, but none of `but_not`."""
    required = [*([] if query is None else [query]), *all_of]
    either = [*([combine.all_of(required)] if required else []), *any_of]
    if not either:
        raise ConfigError("query: empty query. Give a query, all_of or any_of.")
    positive = combine.any_of(either)
    return combine.but_not(positive, combine.any_of(but_not)) if but_not else positive


@dataclass(frozen=True)
class QueryEncoder:
    """Encodes queries with the model of an index."""

    settings: Settings
    encoder: Encoder

    def encode_many(self, queries: Sequence[Query], kind: Kind | None = None) -> list[EncodedQuery]:
        """Encode queries; their texts go through the model in one batch, their images in another.

        `kind` says what an embedding is of.
        """
        trees = [query if isinstance(query, combine.Query) else combine.One(query) for query in queries]
        leaves = [leaf.item for tree in trees for leaf in tree.leaves()]
        known = {**self._texts(leaves), **self._images(leaves)}
        return [self._encoded(tree, known, kind) for tree in trees]

    def embed(self, queries: Sequence[Query]) -> Embedding:
        """The embeddings of queries that are not combinations, one row each."""
        parts = [encoded.embedding for encoded in self.encode_many(queries)]
        single = [part for part in parts if part is not None]
        if len(single) < len(parts):
            raise ConfigError("query: a combination has no embedding. Give its parts one by one.")
        return joined(single)

    def _texts(self, leaves: Sequence[object]) -> dict[int, EncodedQuery]:
        """{identity of a text: what became of it}."""
        texts = [leaf for leaf in leaves if isinstance(leaf, str)]
        if not texts:
            return {}
        embedded, notes = self.encoder.texts(texts)
        rows = enumerate(zip(texts, notes, strict=True))
        return {id(text): EncodedQuery(self._fit(embedded[n]), side="captions", note=note) for n, (text, note) in rows}

    def _images(self, leaves: Sequence[object]) -> dict[int, EncodedQuery]:
        """{identity of an image: what became of it}."""
        images = [leaf for leaf in leaves if isinstance(leaf, Path | Image.Image)]
        if not images:
            return {}
        embedded = self.encoder.model.encode_images(images)
        return {id(image): EncodedQuery(self._fit(embedded[n]), side="images") for n, image in enumerate(images)}

    def _encoded(self, query: combine.Query, known: Mapping[int, EncodedQuery], kind: Kind | None) -> EncodedQuery:
        if isinstance(query, combine.One):
            return self._leaf(query.item, known, kind)
        notes: list[str] = []

        def encode(item: object) -> Embedding:
            part = self._leaf(item, known)
            notes.extend([part.note] if part.note else [])
            assert part.embedding is not None
            return part.embedding

        encoded = query.encoded(encode)
        note = "; ".join(notes) or None
        if isinstance(encoded, combine.One):
            return EncodedQuery(self._fit(encoded.embedding), note=note)
        return EncodedQuery(None, encoded, note=note)

    def _leaf(self, item: object, known: Mapping[int, EncodedQuery], kind: Kind | None = None) -> EncodedQuery:
        if isinstance(item, Gaussian | Points):
            return EncodedQuery(self._fit(item), side=None if kind is None else SIDES[kind])
        if id(item) not in known:
            given = type(item).__name__
            raise ConfigError(f"query: must be text, a Path, a PIL image, an embedding or a combination, got {given}.")
        return known[id(item)]

    def _fit(self, query: Embedding) -> Embedding:
        if len(query) != 1:
            raise DataError(f"query: must be one item, got {len(query)}. Use search_many.")
        return self.settings.fitted(query, "the query")
