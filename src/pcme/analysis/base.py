"""Analysis: a question about a model's uncertainty, answered by numbers and a figure.

An analysis is one file: a frozen dataclass whose fields are its parameters, registered under a name. `compute` returns
a `Result`, a frozen dataclass of plain values that `storage` writes as JSON and reads back. `draw` makes its figure.
"""

import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

import numpy as np
from jaxtyping import Float64, Int64

from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.core.registry import Registry
from pcme.data.sources import ImageSource
from pcme.embedding import Gaussian
from pcme.errors import ConfigError
from pcme.evaluation.bootstrap import Estimate
from pcme.evaluation.subject import Subject as Subject
from pcme.plots import Bars, Figure, bars
from pcme.retrieval.matches import Matches
from pcme.uncertainty.sigma import mean_log_sigma

LARGE = 1000
"""Numbers from here on are shown without decimals."""
NAME_WIDTH, BAR_HEIGHT = 34, 0.55
"""Characters per line of a number's name, and inches per bar, in the default figure."""


@dataclass(frozen=True)
class Need:
    """A requirement of an analysis; `lacking` returns why a subject fails it, or None."""

    what: str
    lacking: Callable[[Subject], str | None]


def _no_probability(subject: Subject) -> str | None:
    if subject.model.score().is_log_probability:
        return None
    return f"the score of method {subject.model.recipe.method.kind} is not one"


def _neither(subject: Subject) -> str | None:
    reasons = [PIXELS.lacking(subject), WORDS.lacking(subject)]
    return " and ".join(map(str, reasons)) if all(reasons) else None


SIGMA = Need("a sigma", lambda s: None if s.has_sigma else f"method {s.model.recipe.method.kind} has none")
PROBABILITY = Need("a match probability", _no_probability)
PIXELS = Need("pixels", lambda s: None if s.dataset.image_vectors is None else "the images are given as vectors")
WORDS = Need("words", lambda s: None if s.dataset.caption_vectors is None else "the captions are given as vectors")
CONTENT = Need("pixels or words", _neither)


@dataclass(frozen=True, eq=False)
class Side:
    """Images, or captions, as queries and the others as gallery: one direction of retrieval."""

    of: str
    direction: str
    queries: Gaussian
    gallery: Gaussian
    matches: Matches
    clusters: Int64[np.ndarray, " n"]
    owner: Int64[np.ndarray, " m"]
    """The query that each caption belongs to: its image, or itself."""

    @cached_property
    def log_sigma(self) -> Float64[np.ndarray, " n"]:
        """Mean log σ per query."""
        return mean_log_sigma(self.queries)


def sides(subject: Subject) -> tuple[Side, Side]:
    """Images as queries, and captions as queries."""
    images, captions, matches = subject.images, subject.captions, subject.matches
    owner = subject.embedded.dataset.caption_image
    return (
        Side("images", "i2t", images, captions, matches.T, subject.clusters, owner),
        Side("captions", "t2i", captions, images, matches, subject.caption_clusters, np.arange(len(captions))),
    )


def interval_bars(name: str, values: Sequence["Estimate | Number"]) -> Bars:
    """One bar per value, with its interval where there is one."""
    rows = np.array([(value.value, value.low, value.high) for value in values], np.float64)  # NaN for None
    return Bars(name, *rows.reshape(-1, 3).T.tolist())


def sample_rows(count: int, limit: int, *stream: str) -> list[int]:
    """At most `limit` of `count` rows, in random order: the same in every run."""
    rows: list[int] = numpy_stream(0, *stream).permutation(count)[:limit].tolist()
    return rows


@dataclass(frozen=True)
class Number:
    """A number with its 95 % confidence interval, where it has one, and what it means."""

    name: str
    value: float
    meaning: str
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, name: str, estimate: Estimate, meaning: str) -> "Number":
        """A number with the interval of its estimate."""
        return cls(name, estimate.value, meaning, estimate.low, estimate.high)

    @property
    def shown(self) -> str:
        """The value as people read it; a dash for NaN."""
        return "–" if math.isnan(self.value) else _short(self.value)

    @property
    def ends(self) -> tuple[str, str] | None:
        """The interval's ends as people read them, where there is one."""
        low, high = self.low, self.high
        if low is None or high is None or any(map(math.isnan, (self.value, low, high))):
            return None
        return _short(low), _short(high)

    def __str__(self) -> str:
        """The value with its interval.

        >>> str(Number("ρ", 0.93312, "1: perfect", 0.9281, 0.9379))
        '0.933 [0.928, 0.938]'
        """
        return self.shown if self.ends is None else f"{self.shown} [{', '.join(self.ends)}]"


class Result(ABC):
    """The outcome of an analysis: a frozen dataclass of numbers, texts, and tuples of them."""

    @abstractmethod
    def numbers(self) -> tuple[Number, ...]:
        """The numbers that sum it up, the most telling first."""


R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Analysis(ABC, Generic[R]):
    """Abstract: a question that can be asked of a model and a split it has embedded."""

    needs: ClassVar[tuple[Need, ...]] = ()
    """Its requirements."""
    reading: ClassVar[str]
    """How to read the figure, in a sentence or two."""
    result: ClassVar[type[Result]]
    """The class of its results: R, unless another is set."""
    shows_images: ClassVar[bool] = False
    """Whether the figure shows images of the split."""
    at_least: ClassVar[Mapping[str, int]] = {}
    """The smallest values of parameters, as the head of the class gives them."""

    def __init_subclass__(cls, at_least: Mapping[str, int] | None = None) -> None:
        if at_least is not None:
            cls.at_least = at_least
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is Analysis and isinstance(get_args(base)[0], type):
                cls.result = get_args(base)[0]

    def __post_init__(self) -> None:
        for name, minimum in self.at_least.items():
            if (value := getattr(self, name)) < minimum:
                raise ConfigError(f"{name}: must be at least {minimum}, got {value}.")

    def obstacle(self, subject: Subject) -> str | None:
        """Why the question cannot be asked here: "needs a sigma, method pcme-mu has none"."""
        for need in self.needs:
            if (why := need.lacking(subject)) is not None:
                return f"needs {need.what}, {why}"
        return None

    @abstractmethod
    def compute(self, subject: Subject, progress: Progress = silent) -> R:
        """Compute the result."""

    def draw(self, result: R, images: ImageSource | None = None) -> Figure:
        """Draw the result: by default bars of its numbers; `images` are those of the split."""
        numbers = [number for number in result.numbers() if not math.isnan(number.value)]
        names = [textwrap.fill(number.name, NAME_WIDTH) for number in numbers]
        height = 0.8 + BAR_HEIGHT * len(numbers)
        return bars(names, [interval_bars("value", numbers)], y_label="value", horizontal=True, height=height)

    def figure(self, result: R, subject: Subject) -> Figure:
        """`draw` with the images of the subject, where the figure shows any."""
        return self.draw(result, subject.embedded.dataset.images if self.shows_images else None)


registry: Registry[Analysis[Any]] = Registry("analysis", "pcme.analysis")


def _short(value: float) -> str:
    """Three decimals, or three digits in all of a large number."""
    return f"{value:.3f}" if abs(value) < LARGE else f"{value:.3g}"
