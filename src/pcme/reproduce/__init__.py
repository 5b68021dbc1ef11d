"""Reproduce: the paper's tables and figures, made again, beside the paper's values.

`reproduce(["table2"], data="aviary", quick=True)` trains the missing runs, measures them, and writes a table, a record
and a figure of each experiment, which is one file of `experiments/`.

>>> "table2" in registry.names()
True
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from pcme import plots
from pcme.core import files
from pcme.core.progress import Progress, silent
from pcme.errors import ConfigError, PcmeError
from pcme.evaluation.open_run import find_dataset
from pcme.recipes.schema import Recipe
from pcme.reproduce import drawings, experiments, pictures
from pcme.reproduce.base import registry
from pcme.reproduce.jobs import Job, forget_features
from pcme.reproduce.outcome import Result, write
from pcme.reproduce.planning import QUICK_SEEDS, SEEDS, Folds, Request, all_jobs, assemble, select, setup_of
from pcme.reproduce.reporting import report
from pcme.reproduce.runner import JobEnded, run_all
from pcme.reproduce.setups import SETUPS, Setup, find_setup
from pcme.reproduce.stamps import data_stamp
from pcme.reproduce.tables import document
from pcme.training.folds import changes as changes_of_fold
from pcme.training.folds import find_division

__all__ = ["SETUPS", "JobEnded", "Result", "Setup", "experiments", "registry", "report", "reproduce"]


def reproduce(
    names: Sequence[str],
    *,
    data: str | Setup = "aviary",
    data_root: Path | None = None,
    seeds: int | None = None,
    quick: bool = False,
    folds: bool = False,
    out: Path = Path("runs/reproduce"),
    jobs: int = 2,
    changes: Sequence[str] = (),
    launch: Callable[[Job], None] | None = None,
    progress: Progress = silent,
    ended: Callable[[JobEnded], None] = lambda job: None,
) -> list[Result]:
    """Make these experiments (["all"] for all that the data allows) and write their files.

    `out` gets runs/ and results/. Finished runs are reused; `progress` is told how many there are, `ended` whenever a
    run ends. `launch` does a job (default: in a process of its own).
    With `folds` everything is cross-validated on the folds of the training classes, without it what the paper
    cross-validates, if the data has folds.
    """
    plots.require()  # before the work, not after it
    setup = data if isinstance(data, Setup) else find_setup(data)
    chosen = select(names, setup)
    count = seeds if seeds is not None else QUICK_SEEDS if quick else SEEDS
    base = setup.recipe([*(setup.quick if quick else ()), *changes])
    trained = [name for name in chosen if registry.create(name).tables(setup)]
    for start in (setup_of(name, setup) for name in trained):
        _require_files(
            start.recipe([*(start.quick if quick else ()), *changes]), setup.command(" ".join(chosen), quick=quick)
        )
    stamp = data_stamp(base, data_root, list(setup.splits.values())) if trained else ""
    divided = _folds(setup, trained, base, data_root, everywhere=folds) if trained else Folds()
    request = Request(setup, quick, count, tuple(changes), out / "runs", data_root, stamp, divided)
    _require_labels(request, chosen, base)
    folder = files.ensure_folder(out / "results", "the results' folder")
    runs = all_jobs(request, chosen)
    missing = [job for job in runs if job.missing]
    progress("runs", len(runs) - len(missing), len(runs))
    failures = run_all(missing, workers=jobs, launch=launch, ended=ended)
    results: list[Result] = []
    broken: list[str] = []
    for name in (name for name in chosen if not any(job.missing for job in request.jobs(name))):
        try:
            results.append(_write(request, name, folder))
        except PcmeError as error:  # the others are written all the same
            broken.append(f"{name}: {error}")
    if failures or broken:
        counts = {"runs": len(failures), "drawings": len(broken)}
        failed = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
        raise PcmeError(
            f"{failed} failed, {len(results)} of {len(chosen)} experiments are written. Fix the "
            "cause and run the same command; finished runs are kept.\n  " + "\n  ".join([*failures, *broken])
        )
    forget_features(request.runs)
    return results


def _write(request: Request, name: str, folder: Path) -> Result:
    """Put together the result of an experiment whose runs are all done, and write its files."""
    result = drawings.with_drawings(request, assemble(request, name))
    pictures.save(result, folder / result.name)
    drawings.save(result, folder / result.name, request)
    files.write_text(folder / f"{result.name}.md", document(result, picture=result.name))
    write(result, folder / f"{result.name}.json")
    return result


def _folds(setup: Setup, names: Sequence[str], recipe: Recipe, data_root: Path | None, *, everywhere: bool) -> Folds:
    """The folds for what is cross-validated: all of it, or what the paper does where the data has folds."""
    tables = (table for name in names for table in registry.create(name).tables(setup))
    as_in_the_paper = any(table.folds for table in tables) and len(find_dataset(recipe, data_root).folds) > 1
    if not (everywhere or as_in_the_paper):
        return Folds()
    division = find_division(recipe, data_root)
    stamps = {fold: data_stamp(recipe.changed(changes_of_fold(fold)), data_root, [fold.val]) for fold in division.folds}
    return Folds(stamps, division.note, everywhere)


def _require_files(recipe: Recipe, command: str) -> None:
    """Refuse a recipe whose pretrained files are missing, before anything is trained."""
    named = {"image.weights": recipe.image.params.get("weights"), "words.vectors": recipe.words.vectors}
    missing = [
        f"{key} ({path})"
        for key, path in named.items()
        if isinstance(path, str) and path != "package" and not Path(path).is_file()
    ]
    if missing:
        listed = ", ".join(missing)
        raise ConfigError(
            f"files that training starts from: missing, got {listed}. Provide them, or name others "
            f"with --set, and run: {command}"
        )


def _require_labels(request: Request, names: Sequence[str], recipe: Recipe) -> None:
    """Refuse plausible matches of a split without labels, before anything is trained."""
    tables = [(name, table) for name in names for table in request.tables(name) if table.needs_labels]
    for name, part in dict.fromkeys((name, table.split) for name, table in tables):
        split = find_dataset(recipe, request.data_root).load(request.setup.splits[part])
        if not split.labelled.any():
            labels = request.setup.labels or "labels of its images"
            raise ConfigError(
                f"{name}: PMRP needs labels, {split.where} has none. Put {labels} into the "
                f"dataset's folder and run: {request.command(name)}"
            )
