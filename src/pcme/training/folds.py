"""Cross-validation: a recipe is trained on every fold of the data's training classes, and judged on its other classes.

The folds are those that the dataset was published with; no unseen class has a part in it. A fold's run is judged by its
last weights: the best ones were chosen on the classes that judge. Paper: §4.1.2, §D.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pcme.core import files
from pcme.core.progress import named
from pcme.data.layout import ClassFold
from pcme.errors import ConfigError
from pcme.evaluation import open_run, retrieval
from pcme.evaluation.open_run import find_dataset
from pcme.kernels.devices import AUTO, DeviceLike
from pcme.model.card import Figures
from pcme.recipes.schema import Recipe
from pcme.training import state
from pcme.training.loop import train
from pcme.training.runs import Reporter

FILE, FORMAT = "folds.json", "pcme-folds-1"


@dataclass(frozen=True)
class Division:
    """The folds of a dataset, and how many classes judge in any of them, and in more than one."""

    folds: tuple[ClassFold, ...]
    judging: int
    repeated: int

    @property
    def note(self) -> str:
        """The classes, in words.

        >>> Division((), 106, 37).note
        '106 classes judge, 37 of them in more than one fold'
        """
        return f"{self.judging} classes judge, {self.repeated} of them in more than one fold"


@dataclass(frozen=True)
class FoldRun:
    """A fold, the folder of its run, and the metrics on its classes."""

    fold: ClassFold
    run: str
    figures: Figures


@dataclass(frozen=True)
class CrossValidation:
    """The runs of all folds."""

    recipe: str
    seed: int
    division: Division
    runs: tuple[FoldRun, ...]

    @property
    def mean(self) -> Figures:
        """The mean over the folds of every metric."""
        return self._over_folds(statistics.fmean)

    @property
    def deviation(self) -> Figures:
        """The standard deviation over the folds, which share most of their training classes."""
        return self._over_folds(statistics.stdev)

    def record(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {"format": FORMAT, **asdict(self), "mean": self.mean, "deviation": self.deviation}

    def _over_folds(self, summary: Callable[[Sequence[float]], float]) -> Figures:
        return {
            way: {name: summary([run.figures[way][name] for run in self.runs]) for name in metrics}
            for way, metrics in self.runs[0].figures.items()
        }


def find_division(recipe: Recipe, data_root: Path | None = None) -> Division:
    """The folds of a recipe's data, all of which can be loaded; a ConfigError where there are none, or no classes."""
    dataset = find_dataset(recipe, data_root)
    if len(dataset.folds) < 2:
        raise ConfigError(
            f"{recipe.data.kind}: cross-validation needs folds of the training classes, got the splits "
            f"{', '.join(dataset.splits) or 'none'}. Leave --folds out, or provide the lists of the folds' classes."
        )
    times: Counter[str] = Counter()
    for fold in dataset.folds:
        learnt, judging = dataset.load(fold.train).classes, dataset.load(fold.val).classes
        if learnt is None or judging is None:
            raise ConfigError(
                f"{recipe.data.kind}: cross-validation needs classes, got images without in {fold.train} or "
                f"{fold.val}. Leave --folds out."
            )
        times.update(judging.names)
    return Division(dataset.folds, len(times), sum(count > 1 for count in times.values()))


def changes(fold: ClassFold) -> tuple[str, str]:
    """The changes of a recipe, as `--set` takes them, with which it learns from a fold and is validated on it."""
    return f"train_split={fold.train}", f"validation.split={fold.val}"


def cross_validate(
    recipe: Recipe,
    out: str | Path,
    *,
    data_root: str | Path | None = None,
    resume: bool = False,
    workers: int = 2,
    strict: bool = False,
    reporter: Reporter | None = None,
    device: DeviceLike = AUTO,
    compiled: bool = False,
) -> CrossValidation:
    """Train and judge every fold; `out` gets a run per fold, fold1 and so on, and folds.json when all are done.

    With `resume` finished folds are only judged again, and an interrupted one goes on.
    """
    folder, root = Path(out), None if data_root is None else Path(data_root)
    division, told = find_division(recipe, root), reporter or Reporter()
    runs = {folder / f"fold{number}": fold for number, fold in enumerate(division.folds, start=1)}
    for run in runs:
        state.require_usable(run, resume=resume)
    learn = partial(
        train, data_root=root, resume=resume, workers=workers, strict=strict, reporter=told, device=device,
        compiled=compiled,
    )  # fmt: skip
    judged = []
    for run, fold in runs.items():
        told.note(f"{run.name}: learns from {fold.train}, judged on {fold.val}")
        learn(recipe.changed(changes(fold)), run)
        subject = open_run(
            run / "last", split=fold.val, data_root=root, workers=workers, device=device,
            progress=named(told.progress, f"{run.name}: {fold.val}"),
        )  # fmt: skip
        items = subject.embedded
        figures = retrieval(subject.model.score(), items.images, items.captions, subject.matches)
        judged.append(FoldRun(fold, run.name, figures))
    found = CrossValidation(recipe.name, recipe.seed, division, tuple(judged))
    files.write_json(folder / FILE, found.record())
    return found
