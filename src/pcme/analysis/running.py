"""Analyse a run: its model on a split of its data, read and embedded only if that is needed."""

from pathlib import Path

from pcme.analysis.base import Subject
from pcme.data.dataset import CaptionDataset
from pcme.data.problems import Problems
from pcme.evaluation import Embedded
from pcme.evaluation.open_run import Waiting, embedded, split_of
from pcme.model import load

__all__ = ["opened"]


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

    def found(dataset: CaptionDataset) -> Embedded:
        return embedded(model, dataset, noted, workers=workers, waiting=waiting)

    return Subject(model, loaded, found)
