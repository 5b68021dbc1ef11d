"""Offline negatives: before an epoch whose loss wants them, the training set is embedded and mined, once a run.

The table belongs to the state of a run, so that a resumed one goes on with the same negatives; before it is made, it
follows from the weights.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int32, Int64

from pcme.core.progress import named
from pcme.data.dataset import CaptionDataset
from pcme.data.loading.batches import FeatureRows, Loader
from pcme.data.loading.offline import OfflineNegatives, WithOffline
from pcme.data.problems import Problems
from pcme.embedding import Embedding
from pcme.evaluation.embed import embed
from pcme.methods.base import Mining
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score
from pcme.training.runs import Run

BLOCK = 4096
"""Queries that are ranked at a time: the lists of all of them would not fit into memory."""


def with_offline(run: Run, batches: Loader) -> Loader:
    """The batches of the coming epoch, with mined negatives if the loss wants them by then."""
    objective, phase = run.model.objective, run.phase
    done, epochs = _epochs(run)
    wanted = objective.mining(done / epochs, last=done + 1 == epochs) if phase.task == "match" else None
    objective.offline = wanted is not None
    if wanted is None:
        return batches
    if run.offline is None:
        # Features are the backbone's output only while none of its blocks learns.
        stored = batches.features[0] if batches.features and phase.backbone == "frozen" else None
        run.offline = mine(run, wanted, stored)
        captions, images = run.offline.captions.shape[1], run.offline.images.shape[1]
        run.reporter.note(f"negatives mined from the training set: {captions} per image, {images} per caption")
    return replace(batches, sampler=WithOffline(run.sampler, run.train_set, run.offline, run.recipe.seed))


def mine(run: Run, wanted: Mining, features: FeatureRows | None) -> OfflineNegatives:
    """The false items that the model takes for the most similar, by the score that it is trained for.

    As many images per caption as are the same share of all; `features` stand for pixels.
    """
    model, dataset = run.model, run.train_set
    progress = named(run.reporter.progress, "negatives from the training set")
    embedded = embed(model, dataset, Problems(), workers=run.workers, features=features, progress=progress)
    images, captions = (side.to(model.device) for side in (embedded.images, embedded.captions))
    part, score = embedded.dataset, model.score()
    image_rows, caption_rows = _rows(part, dataset)
    owned = np.unique(part.caption_image)  # an image without captions has no pairs
    true = _true(part, owned, wanted)
    per_caption = max(1, round(wanted.count * len(owned) / len(part.captions)))
    like_captions = _false(score, captions, images[owned.tolist()], true, per_caption)
    like_images = _false(score, images[owned.tolist()], captions, true.T, wanted.count)
    return OfflineNegatives(
        _placed(like_images, caption_rows, image_rows[owned], len(dataset.images)),
        _placed(like_captions, image_rows[owned], caption_rows, len(dataset.captions)),
    )


def _epochs(run: Run) -> tuple[int, int]:
    """How many epochs of matching are done, and how many there are."""
    epochs = [phase.epochs if phase.task == "match" else 0 for phase in run.recipe.phases]
    return sum(epochs[: run.position.phase]) + run.position.epoch, sum(epochs)


def _true(part: CaptionDataset, owned: Int64[np.ndarray, " n"], wanted: Mining) -> Matches:
    """The pairs that are no negatives, captions as queries: all true ones, or an image's own captions."""
    if wanted.positives == "matches":
        return Matches.from_facts(part.said, part.facts[owned])
    own = np.searchsorted(owned, part.caption_image)
    return Matches.from_pairs(np.arange(len(own)), own, (len(own), len(owned)))


def _false(score: Score, queries: Embedding, gallery: Embedding, true: Matches, count: int) -> Int32[np.ndarray, "q h"]:
    """The best false items of each query, best first; repeated where there are fewer than `count`, −1 without any."""
    width = min(count, len(gallery))
    table = np.full((len(queries), width), -1, np.int32)
    for start in range(0, len(queries), BLOCK):
        rows = slice(start, min(start + BLOCK, len(queries)))
        depth = min(len(gallery), width + int(true.counts[rows].max()))
        ids = score.topk(queries[rows], gallery, k=depth).ids.numpy()
        wrong = ~true.hits(ids, first_row=start)
        found = wrong.sum(1, keepdims=True)
        falling = np.argsort(~wrong, axis=1, kind="stable")  # the false ones first, in their order
        chosen = np.take_along_axis(falling, np.arange(width)[None] % np.maximum(found, 1), 1)
        table[rows] = np.where(found > 0, np.take_along_axis(ids, chosen, 1), -1)
    return table


def _rows(part: CaptionDataset, dataset: CaptionDataset) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " m"]]:
    """The rows that the images and captions of a part have in the dataset."""
    if part is dataset:
        return np.arange(len(dataset.images)), np.arange(len(dataset.captions))
    images = [[source.id(row) for row in range(len(source))] for source in (part.images, dataset.images)]
    return _places(*images), _places(part.caption_ids, dataset.caption_ids)


def _places(some: Sequence[str], every: Sequence[str]) -> Int64[np.ndarray, " n"]:
    place = {name: row for row, name in enumerate(every)}
    return np.array([place[name] for name in some], np.int64)


def _placed(
    found: Int32[np.ndarray, "q h"], items: Int64[np.ndarray, " g"], rows: Int64[np.ndarray, " q"], count: int
) -> Int32[np.ndarray, "n h"]:
    """A table for all rows of the dataset, from one of some queries with the numbers of some items."""
    table = np.full((count, found.shape[1]), -1, np.int32)
    table[rows] = np.where(found < 0, -1, items[found])
    return table
