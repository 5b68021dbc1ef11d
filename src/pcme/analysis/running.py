"""Analyse a run: its model on a split of its data, read and embedded only if that is needed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pcme.analysis.base import Subject
from pcme.data.batches import FeatureRows
from pcme.data.dataset import CaptionDataset
from pcme.data.problems import Problems
from pcme.evaluation import Embedded, embed
from pcme.evaluation.running import split_of
from pcme.held import kept
from pcme.model import Model, load

__all__ = ["Waiting", "opened"]

Waiting = Callable[[str, int, int], None]
"""(what, done, total): so much of something is done."""


def opened(
    run: str | Path,
    *,
    split: str = "test",
    data_root: Path | None = None,
    workers: int = 2,
    problems: Problems | None = None,
    waiting: Waiting = lambda what, done, total: None,
) -> Subject:
    """The model of a run with a split of its data; nothing of the split is read yet.

    What cannot be read is left out and reported to `problems`.
    """
    model, noted = load(run), Problems() if problems is None else problems

    def loaded() -> CaptionDataset:
        return split_of(model.recipe, split, data_root=data_root, problems=noted)

    def embedded(dataset: CaptionDataset) -> Embedded:
        features = _features(model, dataset, noted, workers, waiting)
        progress = partial(waiting, "images")
        return embed(model, dataset, noted, workers=workers, features=features, progress=progress)

    return Subject(model, loaded, embedded)


def _features(
    model: Model, dataset: CaptionDataset, problems: Problems, workers: int, waiting: Waiting
) -> FeatureRows | None:
    """What a backbone that no run changes makes of the images, for all runs."""
    phases = model.recipe.phases
    untouched = all(phase.backbone == "frozen" and phase.task == "match" for phase in phases)
    if dataset.image_vectors is not None or not untouched:
        return None
    progress = partial(waiting, "features of the images")
    return kept(
        model, dataset, model.transform, workers=workers, problems=problems, progress=progress
    )
