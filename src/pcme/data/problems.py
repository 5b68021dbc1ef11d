"""Problems: faults of a dataset, counted and named while loading continues; nothing is skipped silently."""

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pcme.errors import DataError

KEPT = 1000  # problems of one kind that are kept with their names; beyond it they are only counted

KINDS: Mapping[str, str] = {
    "image-missing": "listed but not there; left out",
    "image-empty": "a file of zero bytes; left out",
    "image-truncated": "the file ends too early; left out",
    "image-unreadable": "not an image of a supported format; left out",
    "image-too-large": "more pixels than the limit; not decoded, left out",
    "image-wrong-extension": "the extension names another format; read by its content",
    "image-outside": "lies outside the dataset's folder; left out",
    "image-without-captions": "no usable caption; left out",
    "caption-empty": "no words; left out",
    "caption-too-long": "cut to the longest length allowed",
    "caption-not-utf8": "bytes that are not UTF-8 were replaced by U+FFFD",
    "caption-surplus": "more captions than the protocol takes; the first ones kept",
    "class-missing": "listed but without any image here",
    "duplicate-id": "an id seen before; the first one kept",
    "row-malformed": "a record that cannot be read; left out",
}
"""Every kind of problem, and what is done about it."""
NOTES = frozenset({"caption-surplus", "image-wrong-extension"})
"""Kinds that lose nothing a protocol wants: counted and named, but no reason to stop."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: its kind (see KINDS), where, and what exactly."""

    kind: str
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.where}: {self.detail}"


class Problems:
    """Collects problems from any thread; with `strict` the first one, notes aside, is raised.

    >>> problems = Problems()
    >>> problems.add("caption-empty", "captions.csv:7", "no words")
    >>> len(problems), problems.counts
    (1, {'caption-empty': 1})
    >>> print(problems.summary())
    caption-empty: 1 (no words; left out)
        captions.csv:7: no words
    >>> Problems(strict=True).add("image-empty", "a.jpg", "0 bytes")
    Traceback (most recent call last):
    pcme.errors.DataError: a.jpg: 0 bytes (image-empty). Fix or remove it, or run without --strict.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._kept: defaultdict[str, list[Problem]] = defaultdict(list)
        self._seen: set[int] = set()
        self._meanings = dict(KINDS)

    def add(self, kind: str, where: str, detail: str, *, meaning: str | None = None) -> None:
        """Count one problem, once however often it is met, or raise it; a kind outside of KINDS needs its meaning."""
        if kind not in KINDS and meaning is None:
            raise ValueError(f"unknown kind of problem {kind!r}. Give its meaning.")
        problem = Problem(kind, where, detail)
        key = hash((kind, where))
        with self._lock:
            if key in self._seen:
                return
            self._seen.add(key)
            self._meanings.setdefault(kind, meaning or "")
            self._counts[kind] += 1
            if self._counts[kind] <= KEPT:
                self._kept[kind].append(problem)
        if self.strict and kind not in NOTES:
            raise DataError(f"{problem} ({kind}). Fix or remove it, or run without --strict.")

    @property
    def counts(self) -> dict[str, int]:
        """How many problems of each kind, in the order of KINDS, then other kinds as they came."""
        return {kind: self._counts[kind] for kind in self._meanings if kind in self._counts}

    def kept(self, kind: str) -> tuple[Problem, ...]:
        """The problems of one kind, by name: at most the first 1,000."""
        return tuple(self._kept.get(kind, ()))

    def __len__(self) -> int:
        return sum(self._counts.values())

    def summary(self, examples: int = 3) -> str:
        """The counts with a few examples each, for people; "" when nothing is wrong."""
        lines = []
        for kind, count in self.counts.items():
            lines.append(f"{kind}: {count:,} ({self._meanings[kind]})")
            lines += [f"    {problem}" for problem in self.kept(kind)[:examples]]
            if count > examples:
                lines.append(f"    ... and {count - examples:,} more")
        return "\n".join(lines)

    def record(self) -> dict[str, object]:
        """The counts and the kept problems, for JSON."""
        return {
            kind: {"count": count, "items": [asdict(problem) for problem in self.kept(kind)]}
            for kind, count in self.counts.items()
        }
