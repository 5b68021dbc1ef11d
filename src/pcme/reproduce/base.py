"""Experiments: a table or a figure of the paper as data.

A row is a change of the world's recipe and a score at test time, a column is a metric; beside them
stand the paper's values and what it claims of them. An experiment is one file of `experiments/`
under `@registry.register(name)`; everything else (training, reuse, tables, plots) is done for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from pcme import scores
from pcme.core.registry import Registry
from pcme.reproduce.paper import Source
from pcme.reproduce.setups import World
from pcme.scores.base import Score

__all__ = [
    "OWN",
    "PAPER_SCORE",
    "PCME",
    "Ask",
    "Claim",
    "Column",
    "Experiment",
    "Measure",
    "Plot",
    "Row",
    "Scoring",
    "Table",
    "pvse",
    "registry",
]

Measure = Literal["retrieval", "spread", "cost", "bins", "erasing"]
"""The kinds of figures that `measures` knows."""


@dataclass(frozen=True)
class Scoring:
    """Which score ranks at test time: the model's own or one by name, with some parameters set.

    >>> PAPER_SCORE.key
    'own method=sampled samples=7'
    """

    name: str | None = None
    params: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """A text that tells it from others."""
        return " ".join([self.name or "own", *(f"{k}={v}" for k, v in self.params.items())])

    def of(self, own: Score) -> Score:
        """The score; a model's own keeps the scale and shift it has learned."""
        if self.name is not None:
            return scores.create(self.name, **self.params)
        return replace(own, **self.params)  # type: ignore[type-var]  # all are dataclasses


OWN = Scoring()
PAPER_SCORE = Scoring(params={"method": "sampled", "samples": 7})
"""The match probability by J = 7 samples a side, as in the paper."""

PCME: Mapping[str, Any] = {"kind": "pcme", "likelihood": "sampled"}
"""The paper's method: Eq. (1)-(3) with J = 7 samples in training."""


def pvse(embeddings: int, negatives: str = "hardest") -> Mapping[str, Any]:
    """PVSE with K embeddings; its margin and its other terms are the authors'."""
    return {"kind": "pvse", "embeddings": embeddings, "negatives": negatives}


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
    """Which curve it is a point of, and where, in plots over rows."""


@dataclass(frozen=True)
class Column:
    """A metric, such as "i2t r_precision"; `percent` shows shares times 100."""

    title: str
    metric: str
    measure: Measure = "retrieval"
    percent: bool = True
    digits: int = 1
    x: float | None = None
    """Its place in plots over columns."""


@dataclass(frozen=True)
class Plot:
    """How a table is drawn: bars for each row, or curves whose points are its columns or rows."""

    over: Literal["bars", "columns", "rows"]
    y: str
    x: str = ""
    columns: tuple[str, ...] = ()
    """The titles of the columns that are drawn; all where there are none."""
    log_x: bool = False
    names: Mapping[float, str] = field(default_factory=dict)
    """What some places of the axis are called, where it is not their number."""


@dataclass(frozen=True)
class Claim:
    """What the paper says: one row is above another, by the mean of some columns.

    With `than` it is above in the other row's columns of these titles: in the same row, that says
    how it goes on from column to column.
    """

    text: str
    above: str
    below: str
    columns: tuple[str, ...]
    than: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """Rows by columns on one part of the data."""

    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    plot: Plot
    source: Source | None = None
    split: str = "unseen"
    claims: tuple[Claim, ...] = ()

    def asks(self, row: Row) -> list["Ask"]:
        """What has to be measured for a row."""
        kinds = dict.fromkeys(column.measure for column in self.columns)
        return [Ask(kind, self.split, row.scoring) for kind in kinds]

    @property
    def needs_labels(self) -> bool:
        """Whether it asks for plausible matches, which go by labels."""
        return any("pmrp" in column.metric for column in self.columns)

    def paper(self, row: Row, column: Column) -> float | None:
        """The paper's value in a cell, where it has one."""
        if self.source is None or row.paper is None:
            return None
        return self.source.value(row.paper, column.metric)


@dataclass(frozen=True)
class Ask:
    """One kind of figures of a trained model on one part of the data."""

    measure: Measure
    split: str
    scoring: Scoring

    @property
    def key(self) -> str:
        """A text that tells it from others."""
        return f"{self.measure} {self.split} {self.scoring.key}"


@dataclass(frozen=True)
class Experiment(ABC):
    """Abstract: what a table or a figure of the paper asks."""

    where: ClassVar[str]
    """Where the paper has it."""
    differs: ClassVar[str] = ""
    """In what it differs from the paper, besides the world it is made in."""
    worlds: ClassVar[tuple[str, ...]] = ("aviary", "cub")
    """The data it can be made on."""

    @abstractmethod
    def tables(self, world: World) -> tuple[Table, ...]:
        """Its tables, in a world."""


registry: Registry[Experiment] = Registry("experiment", "pcme.reproduce.experiments")
