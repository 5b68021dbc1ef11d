"""Analysis: a question about a model's uncertainty, answered by numbers and one picture.

An analysis is one file of this package: a frozen dataclass whose fields are its parameters, under
`@registry.register(name)`. `compute` gives a `Result`, a frozen dataclass of plain values, which
`records` writes as JSON and reads back, and which a function of `pcme.plots` draws.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pcme.core.progress import Progress, silent
from pcme.core.registry import Registry
from pcme.errors import ConfigError
from pcme.evaluation.subject import Subject

__all__ = [
    "PIXELS",
    "PIXELS_OR_WORDS",
    "PROBABILITY",
    "SIGMA",
    "WORDS",
    "Analysis",
    "Need",
    "Number",
    "Result",
    "Subject",
    "at_least",
    "registry",
]

LARGE = 1000
"""From here on digits behind the point say nothing."""


@dataclass(frozen=True)
class Need:
    """Something an analysis cannot do without; `lacking` says why it is not there, or nothing."""

    what: str
    lacking: Callable[[Subject], str | None]


SIGMA = Need(
    "a sigma",
    lambda subject: (
        None if subject.has_sigma else f"method {subject.model.recipe.method.kind} has none"
    ),
)
PROBABILITY = Need(
    "a match probability",
    lambda subject: (
        None
        if subject.model.score().is_log_probability
        else f"the score of method {subject.model.recipe.method.kind} is not one"
    ),
)
PIXELS = Need(
    "pixels",
    lambda subject: (
        None if subject.dataset.image_vectors is None else "the images are given as vectors"
    ),
)
WORDS = Need(
    "words",
    lambda subject: (
        None if subject.dataset.caption_vectors is None else "the captions are given as vectors"
    ),
)


def _nothing_but_vectors(subject: Subject) -> str | None:
    lacking = [need.lacking(subject) for need in (PIXELS, WORDS)]
    return " and ".join(map(str, lacking)) if all(lacking) else None


PIXELS_OR_WORDS = Need("pixels or words", _nothing_but_vectors)


@dataclass(frozen=True)
class Number:
    """A figure with its 95 % interval, where it has one, and what it means."""

    name: str
    value: float
    meaning: str
    low: float | None = None
    high: float | None = None

    @property
    def shown(self) -> str:
        """The value as people read it; a dash where there is none."""
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
    """What an analysis found: a frozen dataclass of numbers, texts, and tuples of them."""

    @abstractmethod
    def numbers(self) -> tuple[Number, ...]:
        """The figures that sum it up, the most telling first."""


@dataclass(frozen=True)
class Analysis(ABC):
    """Abstract: a question that can be asked of a model and a split it has embedded."""

    needs: ClassVar[tuple[Need, ...]] = ()
    """What it cannot do without."""
    reading: ClassVar[str]
    """How to read the picture, in a sentence or two."""
    result: ClassVar[type[Result]]
    """What it finds."""

    def obstacle(self, subject: Subject) -> str | None:
        """Why the question cannot be asked here: "needs a sigma - method pcme-mu has none"."""
        for need in self.needs:
            if (why := need.lacking(subject)) is not None:
                return f"needs {need.what} - {why}"
        return None

    @abstractmethod
    def compute(self, subject: Subject, progress: Progress = silent) -> Result:
        """The answer; `progress` is told how far it is."""


registry: Registry[Analysis] = Registry("analysis", "pcme.analysis")


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a parameter below its least value."""
    if value < least:
        raise ConfigError(f"{name} must be at least {least} - got {value}")


def _short(value: float) -> str:
    """Three digits behind the point, or three in all of a large number."""
    return f"{value:.3f}" if abs(value) < LARGE else f"{value:.3g}"
