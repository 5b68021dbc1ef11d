"""Planning: from experiments to the runs they need, each once, and from runs to results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from statistics import fmean

from pcme.errors import ConfigError
from pcme.reproduce.base import Claim, Column, Experiment, Row, Table, registry
from pcme.reproduce.jobs import Done, Job
from pcme.reproduce.outcome import (
    Difference,
    Result,
    ResultRow,
    ResultTable,
    Training,
    Values,
    known,
)
from pcme.reproduce.setups import WORLDS, World

__all__ = ["QUICK_SEEDS", "SEEDS", "Plan", "Request", "all_jobs", "assembled", "chosen"]

SEEDS, QUICK_SEEDS = 3, 1
"""Of each row, where nothing else is asked for."""
LIBRARIES = ("pcme", "torch", "numpy", "numba")


@dataclass(frozen=True)
class Request:
    """What a user asks for: the world, how many seeds, how long, and where runs are kept."""

    world: World
    quick: bool
    seeds: int
    changes: tuple[str, ...]
    """Changes of the recipe in all runs, as `--set` takes them."""
    runs: Path
    data_root: Path | None
    stamp: str
    """Of the data; see `stamps`."""

    def command(self, experiment: str) -> str:
        """What to type for it, without what goes without saying."""
        usual = QUICK_SEEDS if self.quick else SEEDS
        seeds = None if self.seeds == usual else self.seeds
        return self.world.command(experiment, quick=self.quick, seeds=seeds, changes=self.changes)

    def assignments(self, row: Row) -> list[str]:
        """How a row changes the world's recipe."""
        own = self.world.assignments(row.method, row.changes, quick=self.quick)
        return [*own, *self.changes]

    def job(self, table: Table, row: Row, seed: int) -> Job:
        """The run of a row and seed, and what the table asks of it."""
        label = f"{row.label}, seed {seed}" if self.seeds > 1 else row.label
        recipe = self.world.recipe(self.assignments(row), seed=seed)
        asks = tuple(table.asks(row))
        return Job(label, recipe, asks, self.world.splits, self.runs, self.data_root, self.stamp)


@dataclass(frozen=True)
class Plan:
    """An experiment in a world: its tables, and how each row is made."""

    name: str
    experiment: Experiment
    request: Request

    @property
    def tables(self) -> tuple[Table, ...]:
        """The experiment's, in this world."""
        return self.experiment.tables(self.request.world)

    def jobs(self) -> Iterator[Job]:
        """A run for each row and seed, whole seeds first."""
        for seed in range(self.request.seeds):
            for table in self.tables:
                for row in table.rows:
                    job = self.request.job(table, row, seed)
                    yield replace(job, label=f"{self.name}: {job.label}")


def chosen(names: Sequence[str], world: World) -> list[str]:
    """The experiments that are meant: "all" are those that can be made in the world.

    One that cannot be made there is an error that says what to bring.
    """
    known = {name: registry.get(name) for name in registry.names()}
    if list(names) == ["all"]:
        return [name for name, kind in known.items() if world.name in kind.worlds]
    for name in names:
        kind = registry.get(name)
        if world.name not in kind.worlds:
            raise ConfigError(_elsewhere(name, kind, world))
    return list(dict.fromkeys(names))


def all_jobs(plans: Sequence[Plan]) -> list[Job]:
    """Every run once, with all that any experiment asks of it."""
    found: dict[Path, Job] = {}
    for plan in plans:
        for job in plan.jobs():
            first = found.setdefault(job.folder, job)
            asks = tuple({ask.key: ask for ask in (*first.asks, *job.asks)}.values())
            found[job.folder] = replace(first, asks=asks)
    return sorted(found.values(), key=lambda job: job.recipe.seed)


def assembled(plan: Plan) -> Result:
    """The result of an experiment whose runs are all done."""
    request, kind = plan.request, plan.experiment
    world = request.world
    return Result(
        plan.name,
        registry.summary(plan.name),
        kind.where,
        world.name,
        request.quick,
        request.command(plan.name),
        world.base,
        request.seeds,
        tuple(_table(plan, table) for table in plan.tables),
        world.protocol(quick=request.quick),
        (kind.differs, *map(_changed, request.changes)),
        {"python": python_version(), **{name: version(name) for name in LIBRARIES}},
    )


def _elsewhere(name: str, kind: type[Experiment], world: World) -> str:
    others = [WORLDS[other] for other in kind.worlds]
    bring = "; or ".join(other.needs or other.name for other in others)
    commands = "; or ".join(other.command(name) for other in others)
    return (
        f"{name} ({kind.where}) cannot be made on {world.name} - it needs {bring} - then: "
        f"{commands}"
    )


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
    done = Done.read(job.folder)
    assert done.seconds is not None, "asked of runs that are done"
    return Training(job.folder.name, done.seconds, done.resumed)


def _values(jobs: Sequence[Job], table: Table, row: Row, column: Column) -> Values:
    """A column's value of each seed."""
    key = next(ask.key for ask in table.asks(row) if ask.measure == column.measure)
    return tuple(Done.read(job.folder).figures[key].get(column.metric) for job in jobs)


def _sizes(plan: Plan, table: Table) -> Mapping[str, float]:
    first = table.rows[0]
    keys = [ask.key for ask in table.asks(first) if ask.measure == "retrieval"]
    if not keys:
        return {}
    figures = Done.read(plan.request.job(table, first, 0).folder).figures[keys[0]]
    names = ("images", "captions", "i2t chance", "t2i chance")
    return {name: value for name in names if (value := figures[name]) is not None}


def _difference(table: Table, rows: Sequence[ResultRow], claim: Claim) -> Difference | None:
    """One row less another, the mean of the claim's columns, as they are shown.

    None where the data has no such figure, as a part of COCO has no folds.
    """
    by_label = {row.label: row for row in rows}
    above, below = by_label[claim.above], by_label[claim.below]
    sides = (_places(table, claim.columns), _places(table, claim.than or claim.columns))
    more, less = _seed_means(table, above, sides[0]), _seed_means(table, below, sides[1])
    if more is None or less is None:
        return None
    high, low = _mean(above.paper, sides[0]), _mean(below.paper, sides[1])
    return Difference(
        claim.text,
        tuple(left - right for left, right in zip(more, less, strict=True)),
        None if high is None or low is None else high - low,
        max(table.columns[place].digits for place in sides[0]),
    )


def _places(table: Table, titles: Sequence[str]) -> list[int]:
    known = [column.title for column in table.columns]
    return [known.index(title) for title in titles]


def _seed_means(table: Table, row: ResultRow, places: Sequence[int]) -> list[float] | None:
    """The mean of some columns as they are shown, for each seed; None where a value is missing."""
    shown = [
        [(100 if table.columns[place].percent else 1) * value for value in known(row.values[place])]
        for place in places
    ]
    if any(len(values) < len(row.runs) for values in shown):
        return None
    return [fmean(values) for values in zip(*shown, strict=True)]


def _mean(values: Sequence[float | None], places: Sequence[int]) -> float | None:
    found = [values[place] for place in places]
    return None if None in found else fmean(value for value in found if value is not None)
