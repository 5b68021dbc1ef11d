"""Reproduce: the paper's tables and figures, made again, beside what the paper has.

`reproduce(["table2"], data="aviary", quick=True)` trains what is missing, measures it, and writes a
table, a record and a picture of each experiment. An experiment is one file of `experiments/`.

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
from pcme.reproduce.planning import QUICK_SEEDS, SEEDS, Plan, Request, all_jobs, assembled, chosen
from pcme.reproduce.reporting import report
from pcme.reproduce.runner import JobEnded, run_all
from pcme.reproduce.setups import WORLDS, World, world
from pcme.reproduce.stamps import data_stamp
from pcme.reproduce.tables import document

__all__ = [
    "WORLDS",
    "JobEnded",
    "Result",
    "World",
    "experiments",
    "names",
    "registry",
    "report",
    "reproduce",
]


def names() -> list[str]:
    """All experiments, sorted."""
    return registry.names()


def reproduce(
    wanted: Sequence[str],
    *,
    data: str | World = "aviary",
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
    """The results of these experiments (["all"] for all that the data allows), and their files.

    `out` gets runs/ and results/. Finished runs are reused; `progress` is told how many there
    are, `ended` whenever a run ends. `launch` does a job (default: in a process of its own).
    """
    plots.require()  # before the work, not after it
    place = data if isinstance(data, World) else world(data)
    chosen_names = chosen(wanted, place)
    count = seeds if seeds is not None else QUICK_SEEDS if quick else SEEDS
    base = place.recipe([*(place.quick if quick else ()), *changes])
    _require_files(base, place.command(" ".join(chosen_names), quick=quick))
    stamp = data_stamp(base, data_root, list(place.splits.values()))
    request = Request(place, quick, count, tuple(changes), out / "runs", data_root, stamp)
    plans = [Plan(name, registry.create(name), request) for name in chosen_names]
    _require_labels(plans, base)
    files.ensure_folder(out, "the results' folder")
    runs = all_jobs(plans)
    missing = [job for job in runs if job.missing]
    progress("runs", len(runs) - len(missing), len(runs))
    failures = run_all(missing, workers=jobs, launch=launch, ended=ended)
    whole = [plan for plan in plans if not any(job.missing for job in plan.jobs())]
    results = [_written(assembled(plan), out / "results") for plan in whole]
    if failures:
        raise PcmeError(_failed(failures, len(results), len(plans)))
    forget_features(request.runs)
    return results


def _require_files(recipe: Recipe, command: str) -> None:
    """Refuse, before anything is trained, a recipe whose pretrained files are not there."""
    named = {
        "image.weights": recipe.image.params.get("weights"),
        "words.vectors": recipe.words.vectors,
    }
    missing = {
        key: path
        for key, path in named.items()
        if isinstance(path, str) and path != "package" and not Path(path).is_file()
    }
    if missing:
        listed = ", ".join(f"{key} ({path})" for key, path in missing.items())
        raise ConfigError(
            f"files that training starts from are missing - {listed} - bring them, or name others "
            f"with --set - then: {command}"
        )


def _require_labels(plans: Sequence[Plan], recipe: Recipe) -> None:
    """Refuse, before anything is trained, plausible matches of a split that has no labels."""
    asking = {
        (table.split, plan.name): plan.request
        for plan in plans
        for table in plan.tables
        if table.needs_labels
    }
    for (part, name), request in asking.items():
        place = request.world
        split = find_dataset(recipe, request.data_root).load(place.splits[part])
        if not split.labelled.any():
            bring = place.labels or "labels of its images"
            raise ConfigError(
                f"{name} asks for PMRP, which goes by labels - {split.where} has none - bring "
                f"{bring}, in the dataset's folder - then: {request.command(name)}"
            )


def _written(result: Result, folder: Path) -> Result:
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / result.name
    pictures.save(result, stem)
    files.write_text(stem.with_suffix(".md"), document(result, picture=result.name))
    write(result, stem.with_suffix(".json"))
    return result


def _failed(failures: Sequence[str], written: int, planned: int) -> str:
    listed = "\n  ".join(failures)
    return (
        f"{len(failures)} runs failed, so that {written} of {planned} experiments are written - "
        f"mend what is wrong and say the same again: what is done is kept\n  {listed}"
    )
