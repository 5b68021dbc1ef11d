"""Reproduce: the paper's tables and figures, made again, beside the paper's values.

`reproduce(["table2"], data="aviary", quick=True)` trains the missing runs, measures them, and
writes a table, a record and a figure of each experiment, which is one file of `experiments/`.

>>> "table2" in names()
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
from pcme.reproduce import experiments, pictures
from pcme.reproduce.base import registry
from pcme.reproduce.jobs import Job, forget_features
from pcme.reproduce.outcome import Result, write
from pcme.reproduce.planning import QUICK_SEEDS, SEEDS, Plan, Request, all_jobs, assemble, select
from pcme.reproduce.reporting import report
from pcme.reproduce.runner import JobEnded, run_all
from pcme.reproduce.setups import SETUPS, Setup, find_setup
from pcme.reproduce.stamps import data_stamp
from pcme.reproduce.tables import document

__all__ = ["SETUPS", "JobEnded", "Result", "Setup", "experiments", "names", "registry", "report", "reproduce"]


def names() -> list[str]:
    """All experiments, sorted."""
    return registry.names()


def reproduce(
    wanted: Sequence[str],
    *,
    data: str | Setup = "aviary",
    data_root: Path | None = None,
    seeds: int | None = None,
    quick: bool = False,
    out: Path = Path("runs/reproduce"),
    jobs: int = 2,
    changes: Sequence[str] = (),
    launch: Callable[[Job], None] | None = None,
    progress: Progress = silent,
    ended: Callable[[JobEnded], None] = lambda job: None,
) -> list[Result]:
    """Make these experiments (["all"] for all that the data allows) and write their files.

    `out` gets runs/ and results/. Finished runs are reused; `progress` is told how many there
    are, `ended` whenever a run ends. `launch` does a job (default: in a process of its own).
    """
    plots.require()  # before the work, not after it
    setup = data if isinstance(data, Setup) else find_setup(data)
    chosen = select(wanted, setup)
    count = seeds if seeds is not None else QUICK_SEEDS if quick else SEEDS
    base = setup.recipe([*(setup.quick if quick else ()), *changes])
    _require_files(base, setup.command(" ".join(chosen), quick=quick))
    stamp = data_stamp(base, data_root, list(setup.splits.values()))
    request = Request(setup, quick, count, tuple(changes), out / "runs", data_root, stamp)
    plans = [Plan(name, registry.create(name), request) for name in chosen]
    _require_labels(plans, base)
    files.ensure_folder(out, "the results' folder")
    runs = all_jobs(plans)
    missing = [job for job in runs if job.missing]
    progress("runs", len(runs) - len(missing), len(runs))
    failures = run_all(missing, workers=jobs, launch=launch, ended=ended)
    whole = [plan for plan in plans if not any(job.missing for job in plan.jobs())]
    results = [assemble(plan) for plan in whole]
    for result in results:
        _write(result, files.ensure_folder(out / "results", "the results' folder"))
    if failures:
        raise PcmeError(_failed(failures, len(results), len(plans)))
    forget_features(request.runs)
    return results


def _require_files(recipe: Recipe, command: str) -> None:
    """Refuse a recipe whose pretrained files are missing, before anything is trained."""
    named = {"image.weights": recipe.image.params.get("weights"), "words.vectors": recipe.words.vectors}
    missing = {
        key: path
        for key, path in named.items()
        if isinstance(path, str) and path != "package" and not Path(path).is_file()
    }
    if missing:
        listed = ", ".join(f"{key} ({path})" for key, path in missing.items())
        raise ConfigError(
            f"files that training starts from: missing, got {listed}. Provide them, or name others "
            f"with --set, and run: {command}"
        )


def _require_labels(plans: Sequence[Plan], recipe: Recipe) -> None:
    """Refuse plausible matches of a split without labels, before anything is trained."""
    with_labels = {
        (table.split, plan.name): plan.request for plan in plans for table in plan.tables if table.needs_labels
    }
    for (part, name), request in with_labels.items():
        split = find_dataset(recipe, request.data_root).load(request.setup.splits[part])
        if not split.labelled.any():
            labels = request.setup.labels or "labels of its images"
            raise ConfigError(
                f"{name}: PMRP needs labels, {split.where} has none. Put {labels} into the "
                f"dataset's folder and run: {request.command(name)}"
            )


def _write(result: Result, folder: Path) -> None:
    stem = folder / result.name
    pictures.save(result, stem)
    files.write_text(stem.with_suffix(".md"), document(result, picture=result.name))
    write(result, stem.with_suffix(".json"))


def _failed(failures: Sequence[str], written: int, planned: int) -> str:
    listed = "\n  ".join(failures)
    return (
        f"{len(failures)} runs failed, {written} of {planned} experiments are written. Fix the "
        f"cause and run the same command; finished runs are kept.\n  {listed}"
    )
