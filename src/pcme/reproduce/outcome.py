"""The outcome of a reproduction, seed by seed, beside the paper's values; JSON on disk."""

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from scipy.stats import t

from pcme.core import files
from pcme.errors import FormatError
from pcme.reproduce.base import Column, Plot

FORMAT = "pcme-reproduction-1"

Values = tuple[float | None, ...]
"""One per seed, the mean over the folds in a cross-validation; None where a row has no such metric."""
HOLDS, LEVEL, FAILS = "holds", "level", "does not hold"


@dataclass(frozen=True)
class Training:
    """A run, named by the digest of all it depends on.

    `seconds` is its processor time; if it was resumed, without that of earlier attempts.
    """

    digest: str
    seconds: float
    resumed: bool


@dataclass(frozen=True)
class ResultRow:
    """A row: how it was made, its values and the paper's, in the order of the columns."""

    label: str
    changes: tuple[str, ...]
    """The values of `pcme train RECIPE --set ...`."""
    score: str
    runs: tuple[Training, ...]
    """One per seed, or one per seed and fold."""
    values: tuple[Values, ...]
    paper: Values
    series: str = ""
    x: float | None = None


@dataclass(frozen=True)
class Difference:
    """A claim of the paper and its check: the row above minus the row below, one value per seed."""

    text: str
    values: tuple[float, ...]
    paper: float | None
    digits: int = 1

    @property
    def verdict(self) -> str:
        """Whether it holds here, as far as the seeds can tell.

        >>> Difference("", (1.0, 1.2, 1.1), 1.6).verdict
        'holds'
        >>> Difference("", (1.0, -1.2, 0.3), 1.6).verdict
        'level'
        """
        sign = HOLDS if self.mean > 0 else FAILS
        if self.mean == 0:
            return LEVEL
        if self.interval is None:
            return f"{sign}, by one seed"
        low, high = self.interval
        return LEVEL if low <= 0 <= high else sign

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean over seeds; None for one seed.

        Student's t: few seeds hardly determine their spread (3 seeds: 4.3 errors, not 2).

        >>> [round(end, 2) for end in Difference("", (1.0, 1.2, 1.1), 1.6).interval]
        [0.85, 1.35]
        """
        count = len(self.values)
        if count < 2:
            return None
        reach = float(t.ppf(0.975, count - 1)) * statistics.stdev(self.values) / math.sqrt(count)
        return self.mean - reach, self.mean + reach

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.fmean(self.values)


@dataclass(frozen=True)
class ResultTable:
    """A table of an experiment.

    `source` is the paper's table beside it, empty where the paper has only a figure.
    """

    title: str
    source: str
    source_digits: int
    columns: tuple[Column, ...]
    rows: tuple[ResultRow, ...]
    plot: Plot | None
    differences: tuple[Difference, ...]
    sizes: Mapping[str, float]
    """Images, captions, and R-Precision by chance, where retrieval was measured."""
    folds: tuple[str, ...] = ()
    """The splits that judged, in a cross-validation."""

    def index(self, title: str) -> int:
        """The index of the column with this title."""
        return [column.title for column in self.columns].index(title)


@dataclass(frozen=True)
class Stated:
    """A number of a drawing: its name, its value, None where it has none, and its meaning."""

    name: str
    value: float | None
    meaning: str


@dataclass(frozen=True)
class Drawing:
    """A figure beside the tables' own: of an analysis of a run, or of the experiment itself.

    `content` is what is drawn, as JSON has it. Figures with images of the split are not drawn from it alone.
    """

    title: str
    analysis: str
    """The analysis that draws it; empty for the experiment."""
    content: Mapping[str, Any]
    reading: str
    """How to read it."""
    shows_images: bool = False
    numbers: tuple[Stated, ...] = ()
    """Those that stand in no table."""


@dataclass(frozen=True)
class Result:
    """The outcome of an experiment with a setup."""

    experiment: str
    summary: str
    where: str
    world: str
    quick: bool
    command: str
    recipe: str
    seeds: int
    tables: tuple[ResultTable, ...]
    protocol: str
    """The differences of the setup from the paper, in words."""
    differs: tuple[str, ...]
    """Further differences of this experiment."""
    versions: Mapping[str, str]
    folds: bool = False
    """Whether everything was cross-validated, as asked for by --folds."""
    drawings: tuple[Drawing, ...] = ()

    @property
    def name(self) -> str:
        """The name of its files: "aviary-quick-table2"."""
        return "-".join([self.world, *self.marks, self.experiment])

    @property
    def marks(self) -> list[str]:
        """What sets it apart from the result in full, on the setup's own splits."""
        return [*(["quick"] if self.quick else []), *(["folds"] if self.folds else [])]

    @property
    def plotted(self) -> tuple[ResultTable, ...]:
        """The tables that have a plot; their pictures are numbered from 1."""
        return tuple(table for table in self.tables if table.plot is not None)

    def picture(self, drawing: int) -> int:
        """The number of the picture of a drawing: it follows those of the tables."""
        return 1 + len(self.plotted) + drawing

    @property
    def trainings(self) -> dict[str, Training]:
        """{digest: run} of all its runs, each once."""
        rows = (row for table in self.tables for row in table.rows)
        return {run.digest: run for row in rows for run in row.runs}


def record(result: Result) -> dict[str, Any]:
    """A result as JSON has it."""
    return {"format": FORMAT, **asdict(result)}


def write(result: Result, path: Path) -> None:
    """Write a result as JSON, atomically."""
    files.write_json(path, record(result))


def read(path: Path) -> Result:
    """Read a result that `write` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise ValueError("another format")
        return TypeAdapter(Result).validate_python(content)
    except (OSError, ValueError) as error:
        raise FormatError(
            f"{path}: not a result of `pcme reproduce`, got {error}. Run the experiment again."
        ) from error
