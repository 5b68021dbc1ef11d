"""`python -m studies.real`: every method on real photographs, several seeds, searched alike.

    python -m studies.real search cub     settings per method, on validation classes -> search.json
    python -m studies.real search cub --folds    the same, the mean over all folds of validation classes
    python -m studies.real study cub      all methods with those settings -> record.json, tables
    python -m studies.real tables cub     the tables of docs/results/real.md alone, from the record

Reads the datasets below $PCME_DATA. Two runs at a time, one thread each; interrupted runs resume,
finished runs are reused. Test images are looked at by `study` alone.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pcme
from pcme import PcmeError, recipes
from pcme.training.folds import changes as changes_of_fold
from pcme.training.folds import find_division
from studies.real.entries import ENTRIES, STUDIES, Settings, Study, candidates, changes_of, judged_within
from studies.real.measure import measure
from studies.real.tables import DOCUMENT, RECORD, tables
from studies.runs import TrainingRun, train_all
from studies.tables import read_record, write_record, write_tables

SEARCHED = Path(__file__).parent / "search.json"


def main() -> None:
    """Search, study, or write tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("search", "study", "tables"))
    parser.add_argument("name", choices=STUDIES)
    parser.add_argument("--runs", type=Path, default=Path("runs/real"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folds", action="store_true", help="search: judge on every fold of the data, not on one")
    parser.add_argument("--only", nargs="*", choices=ENTRIES, help="these rows alone")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the jobs are the threads
    if options.what == "search":
        search(options)
        return
    if options.what == "study":
        study(options)
    write_tables(DOCUMENT, tables(options.name, read_record(RECORD)[options.name]))


def search(options: argparse.Namespace) -> None:
    """Train every candidate of every row on the choosing split, or on all folds; record its validation metrics."""
    plan = STUDIES[options.name]
    if plan.like is not None:
        sys.exit(f"{options.name} takes the settings of {plan.like}. Search that.")
    rows = list(dict.fromkeys(ENTRIES[row].like or row for row in options.only or plan.rows))
    folder, choosing = options.runs / f"{options.name}-search", divisions(plan, folds=options.folds)
    trials = [
        (row, setting, [
            planned(plan, folder / label(row, {**setting, "fold": fold} if fold else setting), row, setting, 0, more)
            for fold, more in choosing.items()
        ])
        for row in rows
        for setting in candidates(ENTRIES[row])
    ]  # fmt: skip
    row_of = {run: row for row, _, runs in trials for run in runs}
    others = [trial for trial in read_record(SEARCHED).get(options.name, []) if trial["row"] not in rows]
    figures: dict[TrainingRun, dict[str, Any]] = {}

    def measure_run(run: TrainingRun, seconds: float | None) -> None:
        values = noted(plan, run, seconds)["figures"]
        if judged_within(row_of[run]):
            split = pcme.load(run.folder).recipe.validation.split
            found = measure(run.folder, (split,), data_root(plan), sigma=False)
            values = values | {"within": found["within"]}
        figures[run] = values

    def save() -> None:
        finished = [
            {"row": row, "setting": dict(setting), "figures": mean_of([figures[run] for run in runs])}
            | ({"folds": list(choosing)} if options.folds else {})
            for row, setting, runs in trials
            if figures.keys() >= {*runs}
        ]
        write_record(SEARCHED, {**read_record(SEARCHED), options.name: [*others, *finished]})

    train_all(list(row_of), measure_run, save, workers=options.jobs)
    for row in rows:
        print(row, chosen(options.name, row))


def divisions(plan: Study, *, folds: bool) -> dict[str, tuple[str, ...]]:
    """{fold: changes of the recipe with which settings are chosen on it}; of the plan's own alone, "" stands for it."""
    if not folds:
        return {"": plan.choosing}
    try:
        found = find_division(recipes.get(plan.recipe).changed(plan.always), data_root(plan))
    except PcmeError as error:
        sys.exit(str(error))
    return {fold.val: changes_of_fold(fold) for fold in found.folds}


def mean_of(figures: Sequence[Any]) -> Any:  # noqa: ANN401 - a nested record
    """The record of the means of several records' numbers."""
    if isinstance(figures[0], Mapping):
        return {key: mean_of([each[key] for each in figures]) for key in figures[0]}
    return float(np.mean(figures))


def study(options: argparse.Namespace) -> None:
    """Train every row with the settings chosen, and measure it on the test images."""
    plan = STUDIES[options.name]
    recorded = {(run["row"], run["seed"]): run for run in read_record(RECORD).get(options.name, [])}
    tasks: dict[TrainingRun, tuple[str, int, Settings]] = {}
    for seed in range(options.seeds):  # whole seeds first: what is finished can be read
        for row in options.only or plan.rows:
            setting = chosen(options.name, row)
            folder = options.runs / options.name / f"{label(row, setting)}-{seed}"
            known = recorded.get((row, seed))
            if known is None or known["changes"] != changes_of(plan, row, setting):
                run = planned(plan, folder, row, setting, seed)
                tasks[run] = (row, seed, setting)

    def measure_run(run: TrainingRun, seconds: float | None) -> None:
        row, seed, setting = tasks[run]
        facts = {"row": row, "seed": seed, "setting": dict(setting)}
        facts |= {"changes": changes_of(plan, row, setting)}
        facts |= {"seconds": noted(plan, run, seconds)["seconds"]}
        values = measure(run.folder, plan.test, data_root(plan), sigma=True)
        recorded[row, seed] = {**facts, **values}

    def save() -> None:
        write_record(RECORD, {**read_record(RECORD), options.name: list(recorded.values())})

    train_all(list(tasks), measure_run, save, workers=options.jobs)


def planned(
    plan: Study, folder: Path, row: str, setting: Settings, seed: int, more: tuple[str, ...] = ()
) -> TrainingRun:
    """The run of a row with a setting."""
    changes = (*plan.always, *more, *changes_of(plan, row, setting))
    return TrainingRun(plan.recipe, folder, changes, seed, data_root(plan))


def noted(plan: Study, run: TrainingRun, seconds: float | None) -> dict[str, Any]:
    """Training time and validation metrics of a run, which are noted when it ends."""
    note, changes = run.folder / "done.json", list(run.changes[len(plan.always) :])
    if seconds is not None:
        figures = json.loads((run.folder / "output.txt").read_text())["validation"]
        content = {"seconds": seconds, "figures": figures, "changes": changes}
        write_record(note, content)
    content = read_record(note)
    if content.get("changes") != changes:
        sys.exit(f"{run.folder}: made with other settings, {content.get('changes')}. Remove it.")
    return content


def chosen(name: str, row: str) -> Settings:
    """The candidate with the best mean R-Precision on the choosing split."""
    entry, where = ENTRIES[row].like or row, STUDIES[name].like or name
    trials = [trial for trial in read_record(SEARCHED).get(where, []) if trial["row"] == entry]
    if not trials:
        sys.exit(f"no settings of {entry} yet. Run: python -m studies.real search {where}")
    best: Settings = max(trials, key=lambda trial: quality(entry, trial["figures"]))["setting"]
    return best


def quality(row: str, figures: Mapping[str, Mapping[str, float]]) -> float:
    """R-Precision, the mean of both directions; or of both modalities."""
    if judged_within(row):
        return float(np.mean(list(figures["within"].values())))
    return (figures["i2t"]["r_precision"] + figures["t2i"]["r_precision"]) / 2


def data_root(plan: Study) -> Path:
    """The folder of the study's dataset."""
    base = os.environ.get("PCME_DATA")
    if base is None:
        sys.exit("PCME_DATA: not set. Set it to the folder that holds the datasets.")
    return Path(base) / plan.folder


def label(row: str, setting: Settings) -> str:
    """A run's folder: other settings are another run."""
    plain = "".join(c if c.isalnum() or c == "+" else " " for c in row).split()
    return "-".join([*plain, *(str(value) for value in setting.values())])


if __name__ == "__main__":
    main()
