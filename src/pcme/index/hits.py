"""Hits: what a search has found, and how sure it is of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal

from pcme.errors import ConfigError

__all__ = ["Asked", "Hit", "Hits"]


@dataclass(frozen=True)
class Hit:
    """One item that was found."""

    rank: int
    id: str
    kind: str
    score: float
    """The model's own score, by which hits are ordered; for most models a log probability."""
    match_probability: float | None
    """Calibrated if the hits are; None where the score is no probability."""
    raw_probability: float | None
    """As the model has it."""
    uncertainty: float | None
    """The geometric mean of σ; None for a point."""
    path: str | None = None
    text: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What is known of the query."""

    uncertainty: float | None
    percentile: float | None
    """Share, in percent, of the calibration's queries that are less uncertain."""
    expected_matches: float | None
    """Σ match probability of all that was searched; beyond some thousand items from a sample."""
    answerable: bool | None
    """Whether anything here matches, as far as the model knows."""
    note: str | None = None
    """What a person should know before believing the hits."""


@dataclass(frozen=True)
class Hits:
    """The best items, best first; `searched` says among how many.

    >>> asked = Asked(0.1, None, 1.5, True)
    >>> hits = Hits(asked, (Hit(1, "a.jpg", "image", -0.1, 0.9, 0.9, 0.05),), 10, False, True)
    >>> len(hits), hits.ids, hits[0].match_probability
    (1, ['a.jpg'], 0.9)
    """

    query: Asked
    hits: tuple[Hit, ...]
    searched: int
    calibrated: bool
    """False: probabilities are the model's own, which may be far too sure (`pcme calibrate`)."""
    exact: bool
    """Whether the ids are those of a search through everything; else nearly (`pcme index tune`)."""

    @property
    def ids(self) -> list[str]:
        """The ids, best first."""
        return [hit.id for hit in self.hits]

    def above(self, threshold: float) -> "Hits":
        """Only hits whose match probability is at least this."""
        if not 0 <= threshold <= 1:
            raise ConfigError(f"a threshold is a probability, 0 to 1 - got {threshold}")
        if any(hit.match_probability is None for hit in self.hits):
            raise ConfigError(
                "these hits are ranked by a distance, which is no probability - leave out the "
                "threshold, or make an index with a score such as csd_prob"
            )
        kept = (hit for hit in self.hits if (hit.match_probability or 0.0) >= threshold)
        return replace(self, hits=tuple(kept))

    def record(self) -> dict[str, object]:
        """For JSON: `pcme search --json` prints exactly this."""
        query = ("uncertainty", "percentile", "expected_matches", "answerable")
        hit = ("rank", "id", "match_probability", "uncertainty", "metadata")
        return {
            "query": {name: getattr(self.query, name) for name in query},
            "hits": [{name: _plain(getattr(one, name)) for name in hit} for one in self.hits],
        }

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]


def _plain(value: object) -> object:
    """What JSON can hold: dates as ISO 8601, bytes as text, other things as they are written.

    >>> _plain({"seen": date(2001, 5, 1), "sizes": [Decimal("1.5")]})
    {'seen': '2001-05-01', 'sizes': [1.5]}
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
