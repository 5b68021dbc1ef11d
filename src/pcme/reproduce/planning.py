"""Planning: from experiments to the runs they need, each once, and from runs to results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean

from pcme.core.versions import versions
from pcme.errors import ConfigError
from pcme.reproduce.base import Claim, Row, Table, registry
from pcme.reproduce.jobs import Job, JobState
from pcme.reproduce.outcome import Difference, Result, ResultRow, ResultTable, Training
from pcme.reproduce.setups import SETUPS, Setup
from pcme.reproduce.stamps import data_stamp

SEEDS, QUICK_SEEDS = 3, 1  # per row, by default


@dataclass(frozen=True)
class Request:
    """A user's request: the setup, how many seeds, how long, and where runs are kept.

    `changes` of the recipe in all runs are as `--set` takes them.
    """

    setup: Setup
    quick: bool
    seeds: int
    changes: tuple[str, ...]
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
        label = f"{row.label}, seed {seed}" if self.seeds > 1 else row.label
        recipe, measurements = self.setup.recipe(self.assignments(row), seed=seed), tuple(table.measurements(row))
        return Job(label, recipe, measurements, self.setup.splits, self.runs, self.data_root, self.stamp)

    def of(self, name: str) -> "Request":
        """The same for an experiment whose rows start from a recipe of its own, if it has one."""
        setup = setup_of(name, self.setup)
        if setup is self.setup:
            return self
        stamp = data_stamp(setup.recipe(self.changes), self.data_root, list(setup.splits.values()))
        return replace(self, setup=setup, stamp=stamp)

    def tables(self, name: str) -> tuple[Table, ...]:
        """The tables of an experiment with this setup."""
        return registry.create(name).tables(self.setup)

    def jobs(self, name: str) -> Iterator[Job]:
        """One run per row and seed of an experiment, whole seeds first."""
        own = self.of(name)
        for seed, table in product(range(self.seeds), own.tables(name)):
            for row in table.rows:
                job = own.job(table, row, seed)
                yield replace(job, label=f"{name}: {job.label}")


def setup_of(name: str, setup: Setup) -> Setup:
    """The setup that the rows of an experiment start from, on the same data."""
    base = registry.get(name).recipes.get(setup.name)
    return setup if base is None else setup.starting_from(base)


def select(names: Sequence[str], setup: Setup) -> list[str]:
    """The experiments of these names, or aliases; "all" are those that the setup allows, others are refused."""
    if list(names) == ["all"]:
        return [name for name in registry.names() if setup.name in registry.get(name).setups]
    for name in names:
        experiment = registry.get(name)
        others = [SETUPS[other] for other in experiment.setups]
        if setup.name not in experiment.setups:
            needs = "; or ".join(other.needs or other.name for other in others)
            fault = f"{name} ({experiment.where}): not possible on {setup.name}, it needs {needs}."
            raise ConfigError(f"{fault} Then run: {'; or '.join(other.command(name) for other in others)}")
    return list(dict.fromkeys(registry.name_of(registry.get(name)) for name in names))


def all_jobs(request: Request, names: Sequence[str]) -> list[Job]:
    """Every run of some experiments once, with the measurements of all of them."""
    jobs: dict[Path, Job] = {}
    for job in (job for name in names for job in request.jobs(name)):
        first = jobs.setdefault(job.folder, job)
        measurements = {each.key: each for each in (*first.measurements, *job.measurements)}
        jobs[job.folder] = replace(first, measurements=tuple(measurements.values()))
    return sorted(jobs.values(), key=lambda job: job.recipe.seed)


def assemble(request: Request, name: str) -> Result:
    """Assemble the result of an experiment whose runs are all done."""
    request = request.of(name)
    experiment, setup = registry.get(name), request.setup
    return Result(
        name,
        registry.summary(name),
        experiment.where,
        setup.name,
        request.quick,
        request.command(name),
        setup.base,
        request.seeds,
        tuple(_table(request, table) for table in request.tables(name)),
        setup.protocol(quick=request.quick),
        (experiment.differs, *(f"Changed in all runs: {assignment}." for assignment in request.changes)),
        versions(),
    )


def _table(request: Request, table: Table) -> ResultTable:
    rows = tuple(_row(request, table, row) for row in table.rows)
    return ResultTable(
        table.title,
        table.source.name if table.source is not None else "",
        table.source.digits if table.source is not None else 0,
        table.columns,
        rows,
        table.plot,
        tuple(filter(None, (_difference(table, rows, claim) for claim in table.claims))),
        _sizes(request, table),
    )


def _row(request: Request, table: Table, row: Row) -> ResultRow:
    jobs = [request.job(table, row, seed) for seed in range(request.seeds)]
    states = [JobState.read(job.folder) for job in jobs]
    keys = {each.measure: each.key for each in table.measurements(row)}
    runs = zip(jobs, states, strict=True)
    return ResultRow(
        row.label,
        tuple(request.assignments(row)),
        row.scoring.key,
        tuple(Training(job.folder.name, state.seconds or 0.0, state.resumed) for job, state in runs),
        tuple(tuple(state.figures[keys[c.measure]].get(c.metric) for state in states) for c in table.columns),
        tuple(table.paper(row, column) for column in table.columns),
        row.series,
        row.x,
    )


def _sizes(request: Request, table: Table) -> Mapping[str, float]:
    first = table.rows[0]
    keys = [each.key for each in table.measurements(first) if each.measure == "retrieval"]
    if not keys:
        return {}
    figures = JobState.read(request.job(table, first, 0).folder).figures[keys[0]]
    names = ("images", "captions", "i2t chance", "t2i chance")
    return {name: value for name in names if (value := figures[name]) is not None}


def _difference(table: Table, rows: Sequence[ResultRow], claim: Claim) -> Difference | None:
    """One row minus another, the mean of the claim's columns, as they are shown.

    None where the data has no such metric, as a part of COCO has no folds.
    """
    titles = [column.title for column in table.columns]

    def means(label: str, columns: Sequence[str]) -> tuple[list[float] | None, float | None]:
        """The mean of some columns of a row: one per seed, and the paper's."""
        (row,) = (row for row in rows if row.label == label)
        indices = [titles.index(title) for title in columns]
        shown = [table.columns[index].shown(row.values[index]) for index in indices]
        paper = [value for index in indices if (value := row.paper[index]) is not None]
        return (
            [fmean(values) for values in zip(*shown, strict=True)] if min(map(len, shown)) == len(row.runs) else None,
            fmean(paper) if len(paper) == len(indices) else None,
        )

    above, paper_above = means(claim.above, claim.columns)
    below, paper_below = means(claim.below, claim.than or claim.columns)
    if claim.least is not None and above is not None:
        below, paper_below = [claim.least] * len(above), claim.least
    if above is None or below is None:
        return None
    return Difference(
        claim.text,
        tuple(left - right for left, right in zip(above, below, strict=True)),
        None if paper_above is None or paper_below is None else paper_above - paper_below,
        max(column.digits for column in table.columns if column.title in claim.columns),
    )
