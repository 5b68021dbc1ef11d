"""Planning: from experiments to the runs they need, each once, and from runs to results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from pcme.core.versions import versions
from pcme.errors import ConfigError
from pcme.reproduce.base import Claim, Column, Experiment, Row, Table, registry
from pcme.reproduce.jobs import Job, JobState
from pcme.reproduce.outcome import Difference, Result, ResultRow, ResultTable, Training, Values, known
from pcme.reproduce.setups import SETUPS, Setup

SEEDS, QUICK_SEEDS = 3, 1
"""Seeds per row by default."""


@dataclass(frozen=True)
class Request:
    """A user's request: the setup, how many seeds, how long, and where runs are kept."""

    setup: Setup
    quick: bool
    seeds: int
    changes: tuple[str, ...]
    """Changes of the recipe in all runs, as `--set` takes them."""
    runs: Path
    data_root: Path | None
    stamp: str
    """The digest of the data; see `stamps`."""

    def command(self, experiment: str) -> str:
        """The command line, without options that have their default."""
        usual = QUICK_SEEDS if self.quick else SEEDS
        seeds = None if self.seeds == usual else self.seeds
        return self.setup.command(experiment, quick=self.quick, seeds=seeds, changes=self.changes)

    def assignments(self, row: Row) -> list[str]:
        """The changes of the setup's recipe that make a row."""
        return [*self.setup.assignments(row.method, row.changes, quick=self.quick), *self.changes]

    def job(self, table: Table, row: Row, seed: int) -> Job:
        """The run of a row and seed, and the measurements that the table needs of it."""
        return Job(
            f"{row.label}, seed {seed}" if self.seeds > 1 else row.label,
            self.setup.recipe(self.assignments(row), seed=seed),
            tuple(table.measurements(row)),
            self.setup.splits,
            self.runs,
            self.data_root,
            self.stamp,
        )


@dataclass(frozen=True)
class Plan:
    """An experiment with a setup: its tables, and how each row is made."""

    name: str
    experiment: Experiment
    request: Request

    @property
    def tables(self) -> tuple[Table, ...]:
        """The experiment's tables with this setup."""
        return self.experiment.tables(self.request.setup)

    def jobs(self) -> Iterator[Job]:
        """One run per row and seed, whole seeds first."""
        for seed in range(self.request.seeds):
            for table in self.tables:
                for row in table.rows:
                    job = self.request.job(table, row, seed)
                    yield replace(job, label=f"{self.name}: {job.label}")


def select(names: Sequence[str], setup: Setup) -> list[str]:
    """The experiments that these names mean; "all" are those that the setup allows.

    One that it does not allow is an error that says which files would help.
    """
    if list(names) == ["all"]:
        return [name for name in registry.names() if setup.name in registry.get(name).setups]
    for name in names:
        kind = registry.get(name)
        if setup.name not in kind.setups:
            raise ConfigError(_elsewhere(name, kind, setup))
    return list(dict.fromkeys(names))


def all_jobs(plans: Sequence[Plan]) -> list[Job]:
    """Every run once, with the measurements of all experiments."""
    jobs: dict[Path, Job] = {}
    for job in (job for plan in plans for job in plan.jobs()):
        first = jobs.setdefault(job.folder, job)
        wanted = {each.key: each for each in (*first.measurements, *job.measurements)}
        jobs[job.folder] = replace(first, measurements=tuple(wanted.values()))
    return sorted(jobs.values(), key=lambda job: job.recipe.seed)


def assemble(plan: Plan) -> Result:
    """Assemble the result of an experiment whose runs are all done."""
    request, kind = plan.request, plan.experiment
    setup = request.setup
    return Result(
        plan.name,
        registry.summary(plan.name),
        kind.where,
        setup.name,
        request.quick,
        request.command(plan.name),
        setup.base,
        request.seeds,
        tuple(_table(plan, table) for table in plan.tables),
        setup.protocol(quick=request.quick),
        (kind.differs, *map(_changed, request.changes)),
        versions(),
    )


def _elsewhere(name: str, kind: type[Experiment], setup: Setup) -> str:
    others = [SETUPS[other] for other in kind.setups]
    bring = "; or ".join(other.needs or other.name for other in others)
    commands = "; or ".join(other.command(name) for other in others)
    return f"{name} ({kind.where}): not possible on {setup.name}, it needs {bring}. Then run: {commands}"


def _changed(assignment: str) -> str:
    return f"Changed in all runs: {assignment}."


def _table(plan: Plan, table: Table) -> ResultTable:
    rows = tuple(_row(plan, table, row) for row in table.rows)
    return ResultTable(
        table.title,
        table.source.name if table.source is not None else "",
        table.source.digits if table.source is not None else 0,
        table.columns,
        rows,
        table.plot,
        tuple(filter(None, (_difference(table, rows, claim) for claim in table.claims))),
        _sizes(plan, table),
    )


def _row(plan: Plan, table: Table, row: Row) -> ResultRow:
    jobs = [plan.request.job(table, row, seed) for seed in range(plan.request.seeds)]
    return ResultRow(
        row.label,
        tuple(plan.request.assignments(row)),
        row.scoring.key,
        tuple(map(_training, jobs)),
        tuple(_values(jobs, table, row, column) for column in table.columns),
        tuple(table.paper(row, column) for column in table.columns),
        row.series,
        row.x,
    )


def _training(job: Job) -> Training:
    done = JobState.read(job.folder)
    assert done.seconds is not None, "asked of finished runs only"
    return Training(job.folder.name, done.seconds, done.resumed)


def _values(jobs: Sequence[Job], table: Table, row: Row, column: Column) -> Values:
    """A column's values, one per seed."""
    key = next(each.key for each in table.measurements(row) if each.measure == column.measure)
    return tuple(JobState.read(job.folder).figures[key].get(column.metric) for job in jobs)


def _sizes(plan: Plan, table: Table) -> Mapping[str, float]:
    first = table.rows[0]
    keys = [each.key for each in table.measurements(first) if each.measure == "retrieval"]
    if not keys:
        return {}
    figures = JobState.read(plan.request.job(table, first, 0).folder).figures[keys[0]]
    names = ("images", "captions", "i2t chance", "t2i chance")
    return {name: value for name in names if (value := figures[name]) is not None}


def _difference(table: Table, rows: Sequence[ResultRow], claim: Claim) -> Difference | None:
    """One row minus another, the mean of the claim's columns, as they are shown.

    None where the data has no such metric, as a part of COCO has no folds.
    """
    by_label = {row.label: row for row in rows}
    above, below = by_label[claim.above], by_label[claim.below]
    sides = (_indices(table, claim.columns), _indices(table, claim.than or claim.columns))
    more, less = _seed_means(table, above, sides[0]), _seed_means(table, below, sides[1])
    if more is None or less is None:
        return None
    high, low = _mean(above.paper, sides[0]), _mean(below.paper, sides[1])
    return Difference(
        claim.text,
        tuple(left - right for left, right in zip(more, less, strict=True)),
        None if high is None or low is None else high - low,
        max(table.columns[index].digits for index in sides[0]),
    )


def _indices(table: Table, titles: Sequence[str]) -> list[int]:
    every = [column.title for column in table.columns]
    return [every.index(title) for title in titles]


def _seed_means(table: Table, row: ResultRow, indices: Sequence[int]) -> list[float] | None:
    """The mean of some columns as they are shown, one per seed; None where a value is missing."""
    shown = [
        [(100 if table.columns[index].percent else 1) * value for value in known(row.values[index])]
        for index in indices
    ]
    if any(len(values) < len(row.runs) for values in shown):
        return None
    return [fmean(values) for values in zip(*shown, strict=True)]


def _mean(values: Sequence[float | None], indices: Sequence[int]) -> float | None:
    some = known([values[index] for index in indices])
    return fmean(some) if len(some) == len(indices) else None
