"""Evaluate: embed a split, score it both ways, measure against the truth.

Figures are per-query means; what a random order would reach (`chance`) stands beside them.
Paper: §4.1.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int, Int64
from torch import Tensor

from pcme import metrics
from pcme.data.batches import FeatureRows, image_batches
from pcme.data.dataset import CaptionDataset
from pcme.data.problems import Problems
from pcme.embedding import Embedding, joined
from pcme.errors import DataError
from pcme.matches import Matches
from pcme.model import Model
from pcme.scores.base import Score

__all__ = ["Embedded", "embed", "retrieval", "within"]


@dataclass(frozen=True)
class Embedded:
    """A split's embeddings, and the split without what could not be embedded."""

    dataset: CaptionDataset
    images: Embedding
    captions: Embedding


def embed(
    model: Model,
    dataset: CaptionDataset,
    problems: Problems,
    *,
    batch_size: int = 64,
    workers: int = 2,
    features: FeatureRows | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Embedded:
    """Every image once and every caption once; unusable images leave with their captions.

    `features` are what the model's backbone makes of the images, where it has been computed before.
    """
    model.eval()
    indices: list[Int64[np.ndarray, " b"]] = []
    parts: list[Embedding] = []
    stored = dataset.image_vectors if features is None else features
    source = (
        image_batches(
            dataset.images,
            model.transform,
            batch_size=batch_size,
            problems=problems,
            workers=workers,
        )
        if stored is None
        else _stored_batches(stored, len(dataset.images), batch_size)
    )
    with torch.no_grad():
        for rows, inputs in source:
            indices.append(rows)
            parts.append(model.embed_images(inputs))
            progress(int(rows[-1]) + 1, len(dataset.images))
    if not parts:
        raise DataError(
            f"{dataset.where}: none of its {len(dataset.images)} images can be used - see "
            "`pcme data check`"
        )
    kept = np.concatenate(indices)
    if features is not None:
        for index in np.setdiff1d(np.arange(len(dataset.images)), kept).tolist():
            problems.add("image-unreadable", dataset.images.id(index), "has no features")
    part = dataset if len(kept) == len(dataset.images) else dataset.subset(kept)
    return Embedded(part, joined(parts), _embedded_captions(model, part, batch_size))


def _embedded_captions(model: Model, dataset: CaptionDataset, batch_size: int) -> Embedding:
    if dataset.caption_vectors is None:
        return model.encode_captions(list(dataset.captions))
    batches = _stored_batches(dataset.caption_vectors, len(dataset.captions), batch_size)
    with torch.no_grad():
        return joined([model.embed_caption_vectors(vectors) for _, vectors in batches])


def _stored_batches(
    stored: FeatureRows, count: int, size: int
) -> Iterator[tuple[Int64[np.ndarray, " b"], Float32[Tensor, "b s d"]]]:
    """(places, vectors) of what is there, in order."""
    for start in range(0, count, size):
        places = range(start, min(start + size, count))
        found = [(place, row) for place in places if (row := stored.row(place)) is not None]
        if found:
            rows, vectors = zip(*found, strict=True)
            yield np.array(rows, np.int64), torch.stack(vectors)


def retrieval(
    score: Score, images: Embedding, captions: Embedding, matches: Matches
) -> dict[str, dict[str, float]]:
    """{direction: {metric: mean}} of both directions; `matches` has captions as queries."""
    return {
        "i2t": _measured(score, images, captions, matches.T),
        "t2i": _measured(score, captions, images, matches),
    }


def within(
    score: Score, items: Embedding, classes: Int[np.ndarray, " n"]
) -> Float64[np.ndarray, " n"]:
    """R-Precision of each item among the others of its modality, by class; NaN where it is alone.

    Holds the matrix of all pairs.
    """
    same = classes[:, None] == classes[None]
    np.fill_diagonal(same, False)
    matrix = score(items, items)
    matrix.fill_diagonal_(-torch.inf)  # behind all others: nobody searches for what he has
    return metrics.r_precision(matrix, Matches.from_dense(same))


def _measured(
    score: Score, queries: Embedding, gallery: Embedding, matches: Matches
) -> dict[str, float]:
    values: dict[str, list[np.ndarray]] = {}
    for rows, block in score.blocks(queries, gallery):
        some = matches[rows]
        values.setdefault("r_precision", []).append(metrics.r_precision(block, some))
        values.setdefault("map@r", []).append(metrics.map_at_r(block, some))
        for k in (1, 5, 10):
            values.setdefault(f"recall@{k}", []).append(metrics.recall(block, some, k))
    values["chance"] = [metrics.chance(matches)]
    return {name: float(np.nanmean(np.concatenate(parts))) for name, parts in values.items()}
