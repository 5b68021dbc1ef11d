"""Judge what others computed: embeddings or scores in files, by the metrics that judge a run. Paper: Table 3.

Nothing is embedded here, so images need not be there where a dataset can be read without them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pcme import scores as known_scores
from pcme.core.progress import Progress, named, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.layout import Dataset
from pcme.data.problems import Problems
from pcme.embedding import Embedding, Points
from pcme.errors import DataError, ShapeError
from pcme.evaluation.choice import ALL, Chosen, chosen
from pcme.evaluation.embedding_files import Stored, read_embeddings
from pcme.evaluation.evaluate import EvaluationReport
from pcme.evaluation.open_run import find_data
from pcme.evaluation.passes import evaluate_blocks, evaluate_score
from pcme.evaluation.protocols import Protocol, protocol
from pcme.evaluation.results import Evaluation
from pcme.evaluation.rows import Order, Side, in_order, surplus
from pcme.evaluation.score_matrix import ScoreMatrix
from pcme.kernels.devices import AUTO, DeviceLike, choose, has_float64
from pcme.scores import Score, Spec
from pcme.scores.spec import split as split_specs

COSINE = "cosine"
"""The measure of points unless others are named; of several points an item, that of the nearest pair."""
USUAL = ("mean", "csd", "match_prob")
"""The scores of Gaussians unless others are named."""
MATRIX = "matrix"
"""What a result calls the score of a matrix."""
DOUBTFUL = 0.75
"""The mean rank, as a share of the gallery, that no random order has."""

Data = str | Path | CaptionDataset
"""A dataset's name, its folder, or a split of it."""
Files = tuple[str | Path, str | Path]
"""A file for images, and one for captions."""


def evaluate_embeddings(
    images: str | Path,
    captions: str | Path,
    dataset: Data,
    *,
    data_root: Path | None = None,
    split: str = "test",
    scores: str | Sequence[str] | None = None,
    ids: Files | None = None,
    progress: Progress = silent,
    device: DeviceLike = AUTO,
) -> EvaluationReport:
    """Evaluate the embeddings in two files (`embedding_files`) by the cosine and by registered scores.

    `scores` is "all" or names, "cosine" among them. `ids` are text files with an id per row; without ids, here or in
    the files themselves, rows are in the order of the split.
    """
    names, problems = _checked(scores), Problems()
    left, right = read_embeddings(images, "image"), read_embeddings(captions, "caption")
    _require_alike(left, right)
    fitted = _fit(_side(left), _side(right), ids, dataset, data_root, split, problems)
    rules, there = protocol(fitted.split), choose(device)
    precision = torch.promote_types(left.items.dtype, right.items.dtype) if has_float64(there) else torch.float32
    trials, notes = _trials(
        names,
        _picked(left.items, fitted.images).to(there, precision),
        _picked(right.items, fitted.captions).to(there, precision),
    )
    results = tuple(trial.judged(rules, progress) for trial in trials)
    costs = tuple(trial.score.cost(trial.captions) for trial in trials)
    return EvaluationReport(left.path, results, costs, (*fitted.notes, *notes, *rules.notes), problems)


def evaluate_matrix(
    path: str | Path,
    dataset: Data,
    *,
    data_root: Path | None = None,
    split: str = "test",
    ids: Files | None = None,
    progress: Progress = silent,
) -> EvaluationReport:
    """Evaluate the scores [images, captions] in a .npy file, which is read in blocks; higher is better."""
    matrix, problems = ScoreMatrix.open(path), Problems()
    images, captions = matrix.values.shape
    sides = Side(str(matrix.path), "image", images), Side(str(matrix.path), "caption", captions)
    fitted = _fit(*sides, ids, dataset, data_root, split, problems)
    matrix.require_order()
    rules, orders = protocol(fitted.split), (fitted.images, fitted.captions)
    found = evaluate_blocks(
        MATRIX,
        matrix.by_caption(*orders),
        matrix.by_image(*orders),
        rules,
        parameters={"file": matrix.path.name},
        progress=named(progress, f"scores: {MATRIX}"),
    )
    notes = (*fitted.notes, *_doubts(found), *rules.notes)
    return EvaluationReport(matrix.path, (found,), (None,), notes, problems)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A split, the rows of its images and captions in the files, and remarks."""

    split: CaptionDataset
    images: Order
    captions: Order
    notes: tuple[str, ...]


def _fit(
    images: Side,
    captions: Side,
    ids: Files | None,
    dataset: Data,
    data_root: Path | None,
    split: str,
    problems: Problems,
) -> _Fitted:
    """The split that the rows fit: as it is listed, or else the part of it whose images are here."""
    if ids is not None:
        images, captions = images.named(Path(ids[0])), captions.named(Path(ids[1]))
    fault: DataError | None = None
    for part in _parts(dataset, data_root, split, problems):
        try:
            orders = in_order(images, captions, part)
        except DataError as error:
            fault = fault or error
            continue
        remarks = [] if fault is None else [f"judged on the {len(part.images):,} images of {part.where} that are here"]
        return _Fitted(part, *orders, (*remarks, *surplus(images, captions, part)))
    assert fault is not None
    raise fault


def _parts(dataset: Data, data_root: Path | None, split: str, problems: Problems) -> Iterator[CaptionDataset]:
    """The split as it is listed, then without the images that are missing, if any are."""
    if isinstance(dataset, CaptionDataset):
        yield dataset
        return
    found: Dataset = find_data(str(dataset), data_root)
    listed = found.with_missing().load(split, problems)
    yield listed
    try:
        here = found.load(split)
    except DataError:
        return  # none of its images is there
    if len(here.images) < len(listed.images):
        yield here


@dataclass(frozen=True, eq=False)
class _Trial:
    """A score, and what it compares."""

    name: str
    score: Score
    images: Embedding
    captions: Embedding

    def judged(self, rules: Protocol, progress: Progress) -> Evaluation:
        """Its evaluation, under its name."""
        report = named(progress, f"scores: {self.name}")
        found = evaluate_score(self.score, self.images, self.captions, rules, progress=report)
        return replace(found, score=COSINE, parameters={}) if self.name == COSINE else found


def _checked(selection: str | Sequence[str] | None) -> Sequence[str] | None:
    """Scores as they are written (`Spec`), or "all" alone; a wrong one is refused before anything is read."""
    if selection is None:
        return None
    names = split_specs(selection)
    others = [name for name in names if name not in (COSINE, ALL)]
    if others or not names:
        Spec.parse_all(others)
    return names


def _trials(
    names: Sequence[str] | None, images: Embedding, captions: Embedding
) -> tuple[list[_Trial], tuple[str, ...]]:
    """What is to be judged, the cosine first, and notes on scores."""
    if names is None:
        names = [COSINE] if isinstance(images, Points) else USUAL
    others = ALL if ALL in names else [name for name in names if name != COSINE]
    choice = chosen(others, known_scores.create("mean"), images, captions) if others else Chosen(())
    trials = [_Trial(score.name, score, images, captions) for score in choice.scores]
    if COSINE in names or ALL in names:
        left, right = _unit(images, "images"), _unit(captions, "captions")
        single = left.x.shape[1] == right.x.shape[1] == 1  # of unit vectors both rank as the cosine does
        trials.insert(0, _Trial(COSINE, known_scores.create("mean" if single else "nearest"), left, right))
    return trials, choice.notes


def _unit(items: Embedding, side: str) -> Points:
    """The points, or means, brought to length one."""
    x = items.points()
    lengths = x.norm(dim=-1, keepdim=True)
    zero = (lengths == 0).flatten(1).any(1)
    if zero.any():
        first = int(zero.nonzero()[0, 0])
        raise DataError(
            f"{side}: a vector of zeros has no cosine, got {int(zero.sum()):,} of {len(zero):,}, the first in row "
            f"{first:,} of the split (from 0). Embed these again, or choose --scores mean."
        )
    return Points(x / lengths)


def _doubts(found: Evaluation) -> list[str]:
    """A remark on scores that look like distances."""
    rank, last = found.t2i.metric("mean_rank"), found.gallery
    if not rank > DOUBTFUL * (last + 1):
        return []
    text = f"the first right image is number {rank:,.0f} of {last:,} on average, worse than in a random order"
    return [f"{text}: higher scores must be better, so negate distances"]


def _side(stored: Stored) -> Side:
    return Side(str(stored.path), stored.kind, len(stored.items), stored.ids)


def _picked(items: Embedding, order: Order) -> Embedding:
    return items if order is None else items[torch.from_numpy(order)]


def _require_alike(left: Stored, right: Stored) -> None:
    where, kinds = f"{left.path} and {right.path}", [type(side.items).__name__ for side in (left, right)]
    if kinds[0] != kinds[1]:
        raise ShapeError(
            f"{where}: must both hold points or both Gaussians, got {kinds[0]} and {kinds[1]}. Give log_sigma for both "
            "or for neither."
        )
    if left.items.dim != right.items.dim:
        raise ShapeError(
            f"{where}: must have one dimension, got {left.items.dim:,} and {right.items.dim:,}. Embed both with one "
            "model."
        )
