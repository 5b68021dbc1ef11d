"""One pass over a score's blocks, and every metric from it: no score is computed twice.

Each block of rows is ranked once, as deep as its hungriest metric needs; R-Precision and PMRP go R
deep, whatever R is.

Paper: §4.1.1.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int

from pcme import metrics, scores
from pcme.data.dataset import CaptionDataset
from pcme.embedding import Embedding
from pcme.evaluation.plausible import RADII, Plausible
from pcme.evaluation.protocols import Fold, Protocol, Truth, protocol
from pcme.evaluation.results import FOLDED, Direction, Evaluation
from pcme.matches import Matches
from pcme.ranking import Ranking
from pcme.scores.base import Score

__all__ = ["evaluated", "name_of", "parameters_of", "retrieval", "within"]

KS = (1, 5, 10)
"""The k of recall@k."""

Block = Float[np.ndarray, "b g"]
Values = dict[str, Float64[np.ndarray, " b"]]
Progress = Callable[[int, int], None]


def _silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


def evaluated(
    score: Score,
    images: Embedding,
    captions: Embedding,
    truth: Protocol | CaptionDataset,
    *,
    progress: Progress = _silent,
) -> Evaluation:
    """What a score comes to on a split's embeddings, both ways, query by query.

    `truth` is the split itself, or its `protocol` where several scores are evaluated.
    `progress(done, total)` counts the queries of both directions.
    """
    rules = truth if isinstance(truth, Protocol) else protocol(truth)
    total = len(images) + len(captions)

    def judged(queries: Embedding, gallery: Embedding, truth: Truth, before: int) -> Direction:
        values = _values(score, queries, gallery, truth, lambda n, _: progress(before + n, total))
        return Direction(values, truth.ids, len(gallery), truth.clusters, truth.fold_of)

    i2t = judged(images, captions, rules.i2t, 0)
    t2i = judged(captions, images, rules.t2i, len(images))
    name, parameters = name_of(score), parameters_of(score)
    return Evaluation(rules.dataset, name, parameters, i2t, t2i, rules.digest, rules.notes)


def retrieval(
    score: Score, images: Embedding, captions: Embedding, matches: Matches
) -> dict[str, dict[str, float]]:
    """{direction: {metric: mean}} of both directions; `matches` has captions as queries.

    The short form of `evaluated`, for those who have nothing but matches.
    """
    kept = ("r_precision", "map@r", *(f"recall@{k}" for k in KS), "chance")
    nobody = np.zeros(0, np.int64)

    def means(queries: Embedding, gallery: Embedding, matches: Matches) -> dict[str, float]:
        values = _values(score, queries, gallery, Truth((), matches, nobody), _silent)
        return {name: float(np.nanmean(values[name])) for name in kept}

    return {"i2t": means(images, captions, matches.T), "t2i": means(captions, images, matches)}


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


def name_of(score: Score) -> str:
    """The name a score is registered under.

    >>> name_of(scores.create("js"))
    'jeffreys'
    """
    return next(name for name in scores.names() if scores.registry.get(name) is type(score))


def parameters_of(score: Score) -> dict[str, Any]:
    """The fields of a score, by name.

    >>> parameters_of(scores.create("csd_prob"))
    {'scale': 5.0, 'shift': 5.0}
    """
    return {name: getattr(score, name) for name in getattr(score, "__dataclass_fields__", {})}


def _values(
    score: Score, queries: Embedding, gallery: Embedding, truth: Truth, progress: Progress
) -> Values:
    """The values of every metric and query of one direction, NaN where there is none."""
    found: Values = {}
    for rows, scored in score.blocks(queries, gallery):
        for name, places, values in _measured(scored.numpy(), rows, truth):
            found.setdefault(name, np.full(len(queries), np.nan))[places] = values
        progress(rows.stop, len(queries))
    return found


def _measured(
    block: Block, rows: slice, truth: Truth
) -> Iterator[tuple[str, slice | Int[np.ndarray, " b"], Float64[np.ndarray, " b"]]]:
    """(metric, queries, their values) of everything that a block of scores can tell."""
    others = {name: matches[rows] for name, matches in truth.others.items()}
    for name, values in _block_values(
        block, truth.matches[rows], truth.plausible, rows, others
    ).items():
        yield name, rows, values
    for fold in truth.folds:
        first, last = np.searchsorted(fold.queries, (rows.start, rows.stop)).tolist()
        if first < last:
            places = fold.queries[first:last]
            yield from (
                (f"{FOLDED}{name}", places, values)
                for name, values in _fold_values(block[places - rows.start], fold, first).items()
            )


def _fold_values(block: Block, fold: Fold, first: int) -> Values:
    """The same within a fold, of its queries from `first` on."""
    rows = slice(first, first + len(block))
    part = block[:, fold.gallery]
    return _block_values(part, fold.matches[rows], fold.plausible, rows, {})


def _block_values(
    block: Block,
    matches: Matches,
    plausible: Plausible | None,
    rows: slice,
    others: dict[str, Matches],
) -> Values:
    ranking = Ranking.from_scores(block, _depth(matches, plausible, rows, others, block.shape[1]))
    found = _retrieval_values(ranking, matches)
    found["rank"] = metrics.median_rank(block, matches)
    found["chance"] = metrics.chance(matches)
    if plausible is not None:
        shares = plausible.shares(ranking.ids.numpy(), rows)
        found["pmrp"] = shares.mean(1)
        found |= {f"pmrp@{radius}": shares[:, i] for i, radius in enumerate(RADII)}
    for name, relation in others.items():
        found |= {f"{name} {k}": v for k, v in _retrieval_values(ranking, relation).items()}
    return found


def _depth(
    matches: Matches,
    plausible: Plausible | None,
    rows: slice,
    others: dict[str, Matches],
    gallery: int,
) -> int:
    """How deep a block is ranked: to the largest R of its queries, under any judgement."""
    needed = [*KS, *(int(each.counts.max()) for each in (matches, *others.values()))]
    if plausible is not None:
        unlabelled = int(np.count_nonzero(~plausible.labelled))
        needed.append(plausible.deepest(rows) + unlabelled)  # these may stand before all others
    return min(max(needed), gallery)


def _retrieval_values(ranking: Ranking, matches: Matches) -> Values:
    found = {"r_precision": metrics.r_precision(ranking, matches)}
    for k in KS:
        found[f"recall@{k}"] = metrics.recall(ranking, matches, k)
    found["map@r"] = metrics.map_at_r(ranking, matches)
    return found
