"""Searches: some queries of a split and what they find, each hit with its match probability."""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64
from PIL import Image

from pcme.analysis import Subject
from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset, Written
from pcme.data.images.decoding import ImageError
from pcme.embedding import Embedding, Gaussian, joined
from pcme.retrieval.matches import Matches
from pcme.uncertainty.perturbation import width

__all__ = ["Found", "Searched", "by_captions", "by_images"]

PIXELS = 144
"""The longer side of a picture on the page."""

DEEP = 20
"""So many times the captions shown are ranked, so that enough of them differ."""


@dataclass(frozen=True)
class Found:
    """A hit: its picture (a data: address, None where it cannot be shown) or text, and if right."""

    picture: str | None
    text: str
    score: float
    right: bool


@dataclass(frozen=True)
class Searched:
    """A query, how many items match in truth, how many the model expects, and its first hits."""

    picture: str | None
    text: str
    matches: int
    expected: float | None
    """Σ p over the gallery, where the score is a probability."""
    hits: tuple[Found, ...]


def by_captions(subject: Subject, count: int = 6, hits: int = 6) -> tuple[Searched, ...]:
    """Captions that search for images: from narrow to wide; one without a match, if possible.

    They stand at equal steps of σ among all captions (of a model without σ: at random), so that
    nobody has picked them.
    """
    dataset = subject.embedded.dataset
    places = _spread(subject.embedded.captions, count)
    asked = _Asked(
        [(None, dataset.captions[place]) for place in places],
        subject.embedded.captions[places],
        subject.matches[np.array(places)],
    )
    if (written := dataset.unmatched(1)) is not None:
        asked = _with_nothing(asked, subject, places, written)
    return _searched(
        subject, asked, subject.embedded.images, hits, lambda i: (_picture(dataset, i), "")
    )


def by_images(subject: Subject, count: int = 3, hits: int = 5) -> tuple[Searched, ...]:
    """Images that search for captions, from narrow to wide."""
    dataset = subject.embedded.dataset
    places = _spread(subject.embedded.images, count)
    asked = _Asked(
        [(_picture(dataset, place), dataset.images.id(place)) for place in places],
        subject.embedded.images[places],
        subject.matches.T[np.array(places)],
    )
    found = _searched(
        subject,
        asked,
        subject.embedded.captions,
        DEEP * hits,
        lambda i: (None, dataset.captions[i]),
    )
    return tuple(replace(one, hits=_of_different_texts(one.hits)[:hits]) for one in found)


def _of_different_texts(hits: Sequence[Found]) -> tuple[Found, ...]:
    """The first hit of each text: the same sentence over and over tells nothing more."""
    kept: dict[str, Found] = {}
    for hit in hits:
        kept.setdefault(hit.text, hit)
    return tuple(kept.values())


@dataclass(frozen=True)
class _Asked:
    """Queries: what is shown of each, its embedding, and its right answers."""

    shown: "Sequence[Shown]"
    queries: Embedding
    matches: Matches


Shown = tuple[str | None, str]
"""A picture and a text, as they stand on the page."""


def _with_nothing(asked: _Asked, subject: Subject, places: list[int], written: Written) -> _Asked:
    """The queries and a caption that is true of no image of the split."""
    dataset = subject.embedded.dataset
    truth = np.concatenate([dataset.said[places], written.said])
    return _Asked(
        [*asked.shown, *((None, text) for text in written.captions)],
        joined([asked.queries, subject.model.encode_captions(written.captions)]),
        Matches.from_facts(truth, dataset.facts),
    )


def _searched(
    subject: Subject,
    asked: _Asked,
    gallery: Embedding,
    hits: int,
    shown: Callable[[int], Shown],
) -> tuple[Searched, ...]:
    found = []
    for row, (expected, best) in enumerate(_ranked(subject, asked.queries, gallery, hits)):
        rights = asked.matches.hits([[place for place, _ in best]], row)[0]
        first = [
            Found(*shown(place), score, bool(right))
            for (place, score), right in zip(best, rights, strict=True)
        ]
        picture, text = asked.shown[row]
        matches = int(asked.matches.counts[row])
        found.append(Searched(picture, text, matches, expected, tuple(first)))
    return tuple(found)


def _spread(items: Embedding, count: int) -> list[int]:
    """Places at equal steps of rising σ; of points, at random."""
    count = min(count, len(items))
    if not isinstance(items, Gaussian):
        return sorted(numpy_stream(0, "report").permutation(len(items))[:count].tolist())
    order = np.argsort(width(items), kind="stable")
    steps = (np.arange(count) + 0.5) / count * len(order)
    return [int(order[int(step)]) for step in steps]


def _ranked(
    subject: Subject, queries: Embedding, gallery: Embedding, hits: int
) -> list[tuple[float | None, list[tuple[int, float]]]]:
    """(Σ p, [(place, score)]) of every query; a score that is a log probability becomes p."""
    score = subject.model.score()
    probability = score.is_log_probability
    found = []
    for _, block in score.blocks(queries, gallery):
        for row in np.asarray(block, np.float64):
            values = np.exp(row) if probability else row
            found.append((float(values.sum()) if probability else None, _best(row, values, hits)))
    return found


def _best(
    row: Float64[np.ndarray, " g"], values: Float64[np.ndarray, " g"], hits: int
) -> list[tuple[int, float]]:
    order = np.argsort(-row, kind="stable")[:hits]
    return [(int(place), float(values[place])) for place in order]


def _picture(dataset: CaptionDataset, place: int) -> str | None:
    """A small copy of an image as a data: address; None for vectors and what cannot be read."""
    if dataset.image_vectors is not None:
        return None
    try:
        picture = dataset.images.load(place)
    except ImageError:
        return None
    return _data_address(picture)


def _data_address(picture: Image.Image) -> str:
    small = picture.copy()
    small.thumbnail((PIXELS, PIXELS))
    stream_of_bytes = io.BytesIO()
    small.save(stream_of_bytes, "JPEG", quality=85)
    text = base64.b64encode(stream_of_bytes.getvalue()).decode("ascii")
    return f"data:image/jpeg;base64,{text}"
