"""Planning: from experiments to the runs they need, each once, and from runs to results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import fmean

from pcme.core.versions import versions
from pcme.data.layout import ClassFold
from pcme.errors import ConfigError
from pcme.reproduce.base import Claim, Row, Table, registry
from pcme.reproduce.jobs import Job, JobState
from pcme.reproduce.outcome import Difference, Result, ResultRow, ResultTable, Training
from pcme.reproduce.setups import SETUPS, Setup
from pcme.reproduce.stamps import data_stamp
from pcme.training.folds import changes as changes_of_fold

SEEDS, QUICK_SEEDS = 3, 1  # per row, by default
JUDGED = "unseen"
"""The part of the data that a fold's other classes stand for."""


@dataclass(frozen=True)
class Folds:
    """The folds for a cross-validation, each with the digest of its data."""

    stamps: Mapping[ClassFold, str] = field(default_factory=dict)
    note: str = ""
    """How many classes judge, in words."""
    everywhere: bool = False
    """Whether everything is cross-validated, not only what the paper cross-validates."""


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
    folds: Folds = Folds()

    def command(self, experiment: str) -> str:
        """The command line, without options that have their default."""
        usual = QUICK_SEEDS if self.quick else SEEDS
        seeds = None if self.seeds == usual else self.seeds
        return self.setup.command(
            experiment, quick=self.quick, seeds=seeds, changes=self.changes, folds=self.folds.everywhere
        )

    def assignments(self, row: Row) -> list[str]:
        """The changes of the setup's recipe that make a row."""
        return [*self.setup.assignments(row.method, row.changes, quick=self.quick), *self.changes]

    def folds_of(self, table: Table) -> tuple[ClassFold, ...]:
        """The folds of a table that is cross-validated; none for one that is judged on the setup's own splits."""
        return tuple(self.folds.stamps) if self.folds.everywhere or table.folds else ()

    def job(self, table: Table, row: Row, seed: int, fold: ClassFold | None = None) -> Job:
        """The run of a row and seed, on a fold if need be, and the measurements that the table needs of it."""
        label = f"{row.label}, seed {seed}" if self.seeds > 1 else row.label
        assignments, splits, stamp = self.assignments(row), self.setup.splits, self.stamp
        if fold is not None:
            label, splits, stamp = f"{label}, {fold.val}", {JUDGED: fold.val}, self.folds.stamps[fold]
            assignments += changes_of_fold(fold)
        recipe, measurements = self.setup.recipe(assignments, seed=seed), tuple(table.measurements(row))
        return Job(label, recipe, measurements, splits, self.runs, self.data_root, stamp)

    def jobs_of(self, table: Table, row: Row, seed: int) -> list[Job]:
        """The runs of a row and seed: one, or one per fold."""
        return [self.job(table, row, seed, fold) for fold in self.folds_of(table) or (None,)]

    def of(self, name: str) -> "Request":
        """The same for an experiment whose rows start from a recipe of its own, which has no folds, if it has one."""
        setup = setup_of(name, self.setup)
        if setup is self.setup:
            return self
        stamp = data_stamp(setup.recipe(self.changes), self.data_root, list(setup.splits.values()))
        return replace(self, setup=setup, stamp=stamp, folds=Folds())

    def tables(self, name: str) -> tuple[Table, ...]:
        """The tables of an experiment with this setup."""
        splits = {JUDGED: self.setup.splits[JUDGED]} if self.folds.everywhere else self.setup.splits
        return registry.create(name).tables(replace(self.setup, splits=splits))

    def jobs(self, name: str) -> Iterator[Job]:
        """The runs of an experiment, whole seeds first."""
        own = self.of(name)
        for seed, table in product(range(self.seeds), own.tables(name)):
            for job in (job for row in table.rows for job in own.jobs_of(table, row, seed)):
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
    tables = tuple(_table(request, table) for table in request.tables(name))
    return Result(
        name,
        registry.summary(name),
        experiment.where,
        setup.name,
        request.quick,
        request.command(name),
        setup.base,
        request.seeds,
        tables,
        setup.protocol(quick=request.quick),
        (
            experiment.differs,
            *_on_folds(request, name),
            *(f"Changed in all runs: {assignment}." for assignment in request.changes),
        ),
        versions(),
        request.folds.everywhere,
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
        tuple(fold.val for fold in request.folds_of(table)),
    )


def _on_folds(request: Request, name: str) -> Iterator[str]:
    """What is cross-validated, in the paper and here."""
    tables = request.tables(name)
    here = [table.title for table in tables if request.folds_of(table)]
    if here:
        yield f"Cross-validated: {'; '.join(here)}. {request.folds.note}."
    if missing := [table.title for table in tables if table.folds and table.title not in here]:
        yield f"The paper cross-validates on the training classes: {'; '.join(missing)}. Here it is the unseen ones."


def _row(request: Request, table: Table, row: Row) -> ResultRow:
    jobs = [request.jobs_of(table, row, seed) for seed in range(request.seeds)]
    states = [[JobState.read(job.folder) for job in parts] for parts in jobs]
    keys = {each.measure: each.key for each in table.measurements(row)}
    runs = [
        Training(job.folder.name, state.seconds or 0.0, state.resumed)
        for parts, read in zip(jobs, states, strict=True)
        for job, state in zip(parts, read, strict=True)
    ]
    return ResultRow(
        row.label,
        tuple(request.assignments(row)),
        row.scoring.key,
        tuple(runs),
        tuple(tuple(_mean(_values(parts, keys[c.measure], c.metric)) for parts in states) for c in table.columns),
        tuple(table.paper(row, column) for column in table.columns),
        row.series,
        row.x,
    )


def _values(states: Iterable[JobState], key: str, metric: str) -> list[float | None]:
    """A metric of the runs of one seed."""
    return [state.figures[key].get(metric) for state in states]


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean over the folds; None where any of them has no such metric."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _sizes(request: Request, table: Table) -> Mapping[str, float]:
    """Those of the split that judges; their means over the folds."""
    first = table.rows[0]
    keys = [each.key for each in table.measurements(first) if each.measure == "retrieval"]
    if not keys:
        return {}
    states = [JobState.read(job.folder) for job in request.jobs_of(table, first, 0)]
    names = ("images", "captions", "i2t chance", "t2i chance")
    return {name: value for name in names if (value := _mean(_values(states, keys[0], name))) is not None}


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
        seeds = len(row.values[indices[0]])
        paper = [value for index in indices if (value := row.paper[index]) is not None]
        return (
            [fmean(values) for values in zip(*shown, strict=True)] if min(map(len, shown)) == seeds else None,
            fmean(paper) if len(paper) == len(indices) else None,
        )

    above, paper_above = means(claim.above, claim.columns)
    below, paper_below = means(claim.below, claim.than or claim.columns)
    if claim.least is not None and above is not None:
        below, paper_below = [claim.least] * len(above), claim.least
    if claim.most is not None and above is not None:
        above, paper_above, below, paper_below = [claim.most] * len(above), claim.most, above, paper_above
    if above is None or below is None:
        return None
    return Difference(
        claim.text,
        tuple(left - right for left, right in zip(above, below, strict=True)),
        None if paper_above is None or paper_below is None else paper_above - paper_below,
        max(column.digits for column in table.columns if column.title in claim.columns),
    )
