"""Evaluate a score in one pass over its blocks: no score is computed twice.

Each block of rows is ranked once, as deep as any metric needs. A symmetric score is computed once for both directions:
captions search images, and images search captions in the transposed matrix. Paper: §4.1.1.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int

from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.embedding import Embedding, Gaussian
from pcme.evaluation.ground_truth import GroundTruth, Relation
from pcme.evaluation.judge import KS, OWN, block_metrics
from pcme.evaluation.protocols import Protocol, protocol
from pcme.evaluation.results import FOLDED, Direction, Evaluation
from pcme.retrieval.blocks import read_rows
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score

HELD_BYTES = 1 << 30
"""The largest matrix kept for the other direction; beyond it scores are computed again."""

ROWS = 512
"""Queries per block of a kept matrix."""

Values = dict[str, Float64[np.ndarray, " _"]]
Blocks = Iterator[tuple[slice, Float[np.ndarray, "b g"]]]


def evaluate_score(
    score: Score,
    images: Embedding,
    captions: Embedding,
    truth: Protocol | CaptionDataset,
    *,
    progress: Progress = silent,
) -> Evaluation:
    """Evaluate a score on embeddings, per query in both directions; `truth` is the split, or its `protocol`."""
    rules = truth if isinstance(truth, Protocol) else protocol(truth)
    values = _both_directions(score, images, captions, rules.t2i, rules.i2t, progress)
    return _evaluation(rules, score.name, score.parameters, values)


def evaluate_blocks(
    name: str,
    by_caption: Blocks,
    by_image: Blocks,
    rules: Protocol,
    *,
    parameters: Mapping[str, Any] = MappingProxyType({}),
    progress: Progress = silent,
) -> Evaluation:
    """Evaluate scores that are there: blocks of all captions' scores of all images, and of images' of captions."""
    captions, images = len(rules.t2i.matches), len(rules.i2t.matches)
    t2i = _values(by_caption, rules.t2i, lambda done: progress("queries", done, captions + images))
    i2t = _values(by_image, rules.i2t, lambda done: progress("queries", captions + done, captions + images))
    return _evaluation(rules, name, dict(parameters), (t2i, i2t))


def retrieval(score: Score, images: Embedding, captions: Embedding, matches: Matches) -> dict[str, dict[str, float]]:
    """{direction: {metric: mean}}: the short form of `evaluate_score`, for matches with captions as queries."""
    names = ("r_precision", "map@r", *(f"recall@{k}" for k in KS), "chance")
    there, back = (GroundTruth((), each, np.zeros(0, np.int64)) for each in (matches, matches.T))
    t2i, i2t = (
        {name: float(np.nanmean(values[name])) for name in names}
        for values in _both_directions(score, images, captions, there, back, silent)
    )
    return {"i2t": i2t, "t2i": t2i}


def shares_matrix(score: Score, images: Embedding) -> bool:
    """Whether one matrix serves both directions: never if either side is sampled afresh."""
    return score.symmetric and not (score.positional and isinstance(images, Gaussian))


def _evaluation(rules: Protocol, name: str, parameters: Mapping[str, Any], values: tuple[Values, Values]) -> Evaluation:
    """The evaluation with these values, of captions as queries and of images."""
    t2i, i2t = (
        Direction(part, truth.ids, truth.matches.shape[1], truth.clusters, truth.fold_of)
        for part, truth in zip(values, (rules.t2i, rules.i2t), strict=True)
    )
    return Evaluation(rules.dataset, name, parameters, i2t, t2i, rules.digest, rules.notes, rules.labels)


def _both_directions(
    score: Score, images: Embedding, captions: Embedding, t2i: GroundTruth, i2t: GroundTruth, progress: Progress
) -> tuple[Values, Values]:
    """The values of captions as queries, and of images."""
    total = len(captions) + len(images)
    size = len(captions) * len(images) * images.dtype.itemsize
    matrix: Float[torch.Tensor, "c i"] | None = None
    if size <= HELD_BYTES and shares_matrix(score, images):
        matrix = torch.empty((len(captions), len(images)), dtype=images.dtype)

    def report(done: int) -> None:
        progress("queries", done, total)

    by_caption = _values(_scored(score, captions, images, matrix), t2i, report)
    back = _scored(score, images, captions) if matrix is None else _columns(matrix.numpy())
    return by_caption, _values(back, i2t, lambda done: report(len(captions) + done))


def _scored(
    score: Score, queries: Embedding, gallery: Embedding, out: Float[torch.Tensor, "q g"] | None = None
) -> Blocks:
    for rows, block in score.blocks(queries, gallery, out=out):
        yield rows, block.cpu().numpy()


def _columns(matrix: Float[np.ndarray, "c i"]) -> Blocks:
    """The transposed matrix in blocks of rows."""
    for start in range(0, matrix.shape[1], ROWS):
        rows = slice(start, min(start + ROWS, matrix.shape[1]))
        yield rows, read_rows(matrix.T, rows)


def _values(blocks: Blocks, truth: GroundTruth, done: Callable[[int], None]) -> Values:
    """The per-query values of every metric of one direction, NaN where there is none."""
    collected: Values = {}
    for rows, block in blocks:
        for name, queries, values in _measure(block, rows, truth):
            collected.setdefault(name, np.full(len(truth.matches), np.nan))[queries] = values
        done(rows.stop)
    return collected


def _measure(
    block: Float[np.ndarray, "b g"], rows: slice, truth: GroundTruth
) -> Iterator[tuple[str, slice | Int[np.ndarray, " b"], Float64[np.ndarray, " b"]]]:
    """(metric, queries, values) of a block of scores, over the whole gallery and within folds."""
    relations = {OWN: Relation.of(truth.matches), **truth.others}
    whole = block_metrics(block, rows, relations, truth.plausible)
    yield from ((name, rows, values) for name, values in whole.items())
    for fold in truth.folds:
        first, last = np.searchsorted(fold.queries, (rows.start, rows.stop)).tolist()
        if first < last:
            queries = fold.queries[first:last]
            part = block[queries - rows.start][:, fold.gallery]
            own = {OWN: Relation.of(fold.matches)}
            inner = block_metrics(part, slice(first, last), own, fold.plausible)
            yield from ((FOLDED + name, queries, values) for name, values in inner.items())
