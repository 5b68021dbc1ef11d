"""Searches: queries of a split, their hits in an index, and the truth about both."""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.decoding import ImageError
from pcme.embedding import Embedding, Gaussian
from pcme.evaluation.subject import Subject
from pcme.index import Hit, Hits, QueryInfo, SearchIndex
from pcme.index.queries import Query
from pcme.index.rows import Kind
from pcme.model import Model
from pcme.retrieval.matches import Matches
from pcme.uncertainty import Confidence

ROW = "row"
"""The column of an index with an item's row in its split."""

PIXELS = 144
"""The longer side of an image on the page."""

DEEP = 20
"""The factor of captions ranked over captions shown, so that enough of them differ."""

Shown = tuple[str | None, str]
"""An image (a data: address) and a text, as they stand on the page."""


@dataclass(frozen=True)
class Search:
    """A query with its hits; `relevant` tells which of them match, `matches` how many items do."""

    text: str
    hits: Hits
    relevant: tuple[bool, ...]
    matches: int

    @property
    def rows(self) -> list[int]:
        """The rows of the hits in their split."""
        return [_row(hit) for hit in self.hits]

    @property
    def verdict(self) -> str | None:
        """The answer in words; None for a score that is not a probability."""
        if self.hits.query.answerable is None:
            return None
        if not self.hits.query.answerable:
            return "nothing here matches"
        return f"about {self.hits.query.expected_matches:,.0f} {self.hits[0].kind}s match"

    @property
    def summary(self) -> str:
        """The verdict beside the truth, in letters that the font of images has (it lacks σ)."""
        percentile = self.hits.query.percentile
        above = "" if percentile is None else f"; less certain than {percentile:.0f} % of captions"
        return f"{self.verdict} (in truth {self.matches:,}){above}"


@dataclass(frozen=True)
class ShownHit:
    """A hit as the page shows it; the image is a data: address, None where it cannot be shown."""

    id: str
    picture: str | None
    text: str
    value: float
    """The match probability, or the score where it is not one."""
    relevant: bool


@dataclass(frozen=True)
class ShownSearch:
    """A query as the page shows it, with its first hits."""

    picture: str | None
    text: str
    matches: int
    """The number of items that match in truth."""
    expected: float | None
    """The number of matches that the model expects, where the score is a probability."""
    verdict: str | None
    hits: tuple[ShownHit, ...]


def index_items(
    path: str | Path,
    model: Model | str | Path,
    items: Embedding,
    ids: Sequence[str],
    *,
    kind: Kind,
    confidence: Confidence | None = None,
) -> SearchIndex:
    """Create an index of the embedded items of a split; `ROW` has their rows."""
    index = SearchIndex.create(path, model, confidence=confidence)
    index.add(items, {ROW: range(len(items))}, ids=ids, kind=kind)
    return index


def judge(ranked: Sequence[Hits], texts: Sequence[str], matches: Matches) -> list[Search]:
    """Compare the hits of queries with the truth; `matches` has one row per query."""
    searches = []
    for row, (hits, text) in enumerate(zip(ranked, texts, strict=True)):
        relevant = matches.hits([[_row(hit) for hit in hits]], row)[0]
        searches.append(Search(text, hits, tuple(map(bool, relevant)), int(matches.counts[row])))
    return searches


def by_captions(
    subject: Subject, confidence: Confidence | None, count: int = 6, hits: int = 6
) -> tuple[ShownSearch, ...]:
    """Search for images by captions at equal steps of σ (without σ: at random) and one without a match, if possible."""
    dataset = subject.embedded.dataset
    rows = _spread(subject.embedded.captions, count)
    texts, said = [dataset.captions[row] for row in rows], dataset.said[rows]
    queries: Sequence[Query] | Embedding = texts
    if dataset.caption_vectors is not None:
        queries = subject.embedded.captions[rows]
    elif (written := dataset.unmatched(1)) is not None:
        queries = texts = [*texts, *written.captions]
        said = np.concatenate([said, written.said])
    ids = [dataset.images.id(row) for row in range(len(dataset.images))]
    ranked = _search(subject, confidence, "image", ids, queries, hits)
    searches = judge(ranked, texts, Matches.from_facts(said, dataset.facts))
    return tuple(_shown(search, None, lambda i: (_picture(dataset, i), "")) for search in searches)


def by_images(
    subject: Subject, confidence: Confidence | None, count: int = 3, hits: int = 5
) -> tuple[ShownSearch, ...]:
    """Search for captions: images of rising uncertainty; hits have different texts."""
    dataset = subject.embedded.dataset
    rows = _spread(subject.embedded.images, count)
    queries, names = subject.embedded.images[rows], [dataset.images.id(row) for row in rows]
    ranked = _search(subject, confidence, "caption", dataset.caption_ids, queries, DEEP * hits)
    searches = judge(ranked, names, subject.matches.T[np.array(rows)])
    shown = [
        _shown(search, _picture(dataset, row), lambda i: (None, dataset.captions[i]))
        for search, row in zip(searches, rows, strict=True)
    ]
    return tuple(replace(each, hits=_of_different_texts(each.hits)[:hits]) for each in shown)


def _search(
    subject: Subject,
    confidence: Confidence | None,
    kind: Kind,
    ids: Sequence[str],
    queries: Sequence[Query] | Embedding,
    k: int,
) -> list[Hits]:
    """Search the split's images, or captions, with queries of the other kind."""
    model, embedded = subject.model, subject.embedded
    items = embedded.images if kind == "image" else embedded.captions
    if model.method.heads(model.recipe.dim).points > 1:
        return _ranked(model, items, kind, ids, queries, k)
    index = index_items("memory://", model, items, ids, kind=kind, confidence=confidence)
    other: Kind = "caption" if kind == "image" else "image"
    return index.search_many(queries, min(k, len(items)), query_kind=other)


def _ranked(
    model: Model, items: Embedding, kind: Kind, ids: Sequence[str], queries: Sequence[Query] | Embedding, k: int
) -> list[Hits]:
    """The hits of a model with several points per item, which no index holds, by its score."""
    if not isinstance(queries, Embedding):
        queries = model.encode_captions([str(query) for query in queries])
    ranking = model.score().topk(queries, items, k=min(k, len(items)))
    ranked = []
    for rows, scores in zip(ranking.ids.tolist(), ranking.scores.tolist(), strict=True):
        hits = tuple(
            Hit(rank, ids[row], kind, score, None, None, None, metadata={ROW: row})
            for rank, (row, score) in enumerate(zip(rows, scores, strict=True), start=1)
        )
        ranked.append(Hits(QueryInfo(None, None, None, None), hits, len(items), calibrated=False, exact=True))
    return ranked


def _shown(search: Search, picture: str | None, item: Callable[[int], Shown]) -> ShownSearch:
    hits = [
        ShownHit(hit.id, *item(_row(hit)), _value(hit), relevant)
        for hit, relevant in zip(search.hits, search.relevant, strict=True)
    ]
    expected = search.hits.query.expected_matches
    return ShownSearch(picture, search.text, search.matches, expected, search.verdict, tuple(hits))


def _row(hit: Hit) -> int:
    return int(str(hit.metadata[ROW]))


def _value(hit: Hit) -> float:
    return hit.score if hit.match_probability is None else hit.match_probability


def _of_different_texts(hits: Sequence[ShownHit]) -> tuple[ShownHit, ...]:
    """The first hit of each text."""
    texts = [hit.text for hit in hits]
    return tuple(hit for rank, hit in enumerate(hits) if hit.text not in texts[:rank])


def _spread(items: Embedding, count: int) -> list[int]:
    """Rows at equal steps of rising σ; of points, at random."""
    count = min(count, len(items))
    if not isinstance(items, Gaussian):
        return sorted(numpy_stream(0, "report").permutation(len(items))[:count].tolist())
    order = np.argsort(items.mean_log_sigma().numpy(), kind="stable")
    steps = (np.arange(count) + 0.5) / count * len(order)
    return order[steps.astype(int)].tolist()  # type: ignore[no-any-return]


def _picture(dataset: CaptionDataset, row: int) -> str | None:
    """A small copy of an image as a data: address; None for vectors and unreadable images."""
    if dataset.image_vectors is not None:
        return None
    try:
        small, stream = dataset.images.load(row).copy(), io.BytesIO()
    except ImageError:
        return None
    small.thumbnail((PIXELS, PIXELS))
    small.save(stream, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
