"""Experiments: a table or a figure of the paper as data.

A row is a change of the setup's recipe and a score at test time, a column is a metric; beside them stand the paper's
values and claims. A table may be drawn by an analysis, whose numbers are its columns. An experiment is one file of
`experiments/` under `@registry.register(name)`; the numbers that the paper gives it are its aliases.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from pcme import scores
from pcme.analysis import Result
from pcme.core.registry import Registry
from pcme.reproduce.paper import Source
from pcme.reproduce.setups import Setup
from pcme.scores.base import Score

Measure = Literal["retrieval", "spread", "cost", "bins", "erasing", "analysis"]
"""The kinds of metrics that `measures` knows; "analysis": the numbers of one, by their names."""


@dataclass(frozen=True)
class Scoring:
    """The score that ranks at test time: the model's own or one by name, with some parameters set.

    >>> PAPER_SCORE.key
    'own method=sampled samples=7'
    """

    name: str | None = None
    params: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The text under which its metrics are stored."""
        return " ".join([self.name or "own", *(f"{k}={v}" for k, v in self.params.items())])

    def of(self, score: Score) -> Score:
        """The score by name, or the model's, which keeps its learned scale and shift."""
        if self.name is not None:
            return scores.create(self.name, **self.params)
        return replace(score, **self.params)  # type: ignore[type-var]  # all are dataclasses


OWN = Scoring()
PAPER_SCORE = Scoring(params={"method": "sampled", "samples": 7})
"""The match probability by J = 7 samples a side, as in the paper."""


@dataclass(frozen=True)
class Asked:
    """An analysis by name, with some parameters set.

    >>> Asked("algebra", {"pairs": 50}).key
    'algebra pairs=50'
    """

    name: str
    params: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The text under which its numbers are stored."""
        return " ".join([self.name, *(f"{k}={v}" for k, v in self.params.items())])


@dataclass(frozen=True)
class Row:
    """A method as it is trained and tested."""

    label: str
    method: Mapping[str, Any]
    changes: tuple[str, ...] = ()
    """Further changes of the recipe, as `--set` takes them."""
    scoring: Scoring = OWN
    paper: str | None = None
    """The row of the source that it corresponds to."""
    series: str = ""
    x: float | None = None
    """Its curve, and its position on it, in plots over rows."""


@dataclass(frozen=True)
class Column:
    """A metric, such as "i2t r_precision"; `percent` shows shares times 100."""

    title: str
    metric: str
    measure: Measure = "retrieval"
    percent: bool = True
    digits: int = 1
    x: float | None = None
    """Its position in plots over columns."""

    def shown(self, values: Iterable[float | None]) -> list[float]:
        """The values that are not None, as tables and figures show them."""
        return [100 * value if self.percent else value for value in values if value is not None]


@dataclass(frozen=True)
class Plot:
    """The drawing of a table: bars per row, or curves whose points are its columns or rows."""

    over: Literal["bars", "columns", "rows"]
    y: str
    x: str = ""
    columns: tuple[str, ...] = ()
    """The titles of the columns that are drawn; all where there are none."""
    log_x: bool = False
    names: Mapping[float, str] = field(default_factory=dict)
    """Labels of ticks that are not their number."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: one row is above another, by the mean of some columns.

    With `than` it is above the other row's columns of these titles; in the same row, that compares columns. With
    `least` it is above this value, with `most` below this one, as the columns show it, and no other row counts.
    """

    text: str
    above: str
    below: str
    columns: tuple[str, ...]
    than: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Measurement:
    """One kind of metrics of a trained model on one part of the data."""

    measure: Measure
    split: str
    scoring: Scoring
    asked: Asked | None = None
    """What is analysed, where an analysis measures."""

    @property
    def key(self) -> str:
        """The text under which its metrics are stored."""
        what = self.scoring if self.asked is None else self.asked
        return f"{self.measure} {self.split} {what.key}"


@dataclass(frozen=True)
class Table:
    """Rows by columns on one part of the data."""

    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    plot: Plot | None
    source: Source | None = None
    split: str = "unseen"
    claims: tuple[Claim, ...] = ()
    folds: bool = False
    """Whether the paper's is a cross-validation on the training classes, as here where the data has folds."""
    drawn: Asked | None = None
    """The analysis that draws its rows, of the first seed, and measures its columns of kind "analysis"."""

    def measurements(self, row: Row) -> list[Measurement]:
        """The measurements that a row needs."""
        kinds = dict.fromkeys(column.measure for column in self.columns)
        return [
            Measurement(kind, self.split, row.scoring, self.drawn if kind == "analysis" else None) for kind in kinds
        ]

    @property
    def needs_labels(self) -> bool:
        """Whether it has plausible matches, which are defined by labels."""
        return any("pmrp" in column.metric for column in self.columns)

    def paper(self, row: Row, column: Column) -> float | None:
        """The paper's value in a cell, where it has one."""
        if self.source is None or row.paper is None:
            return None
        return self.source.value(row.paper, column.metric)


@dataclass(frozen=True)
class Experiment:
    """Abstract: a table or a figure of the paper, as the tables that make it again."""

    where: ClassVar[str]
    """Its place in the paper."""
    differs: ClassVar[str] = ""
    """Its differences from the paper, besides those of the setup."""
    setups: ClassVar[tuple[str, ...]] = ("aviary", "cub", "cub-pairs")
    """The data it can be made on."""
    recipes: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """{data: the recipe that its rows start from}, where that is not the setup's."""
    content: ClassVar[tuple[Table, ...]] = ()
    """Its tables, unless they depend on the setup."""

    def tables(self, setup: Setup) -> tuple[Table, ...]:
        """Its tables with a setup."""
        return self.content

    def drawings(self, results: Mapping[str, Result]) -> Mapping[str, Result]:
        """{title: what its table's analysis draws}, from {row: its result}: by default each row by itself."""
        return results


registry: Registry[Experiment] = Registry("experiment", "pcme.reproduce.experiments")
