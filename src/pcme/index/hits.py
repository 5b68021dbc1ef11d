"""Hits: the result of a search, with a probability per hit and what is known of the query."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from typing import Any

from pcme.core.checks import require
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError
from pcme.index.rows import RESERVED, Kind


@dataclass(frozen=True)
class Hit:
    """One retrieved item."""

    rank: int
    id: str
    kind: str
    score: float
    """The model's own score, by which hits are ordered; for most models a log probability."""
    match_probability: float | None
    """Calibrated if the hits are; None where the score is not a probability."""
    raw_probability: float | None
    """The model's own probability; None where there is none, and for a combined query."""
    uncertainty: float | None
    """The geometric mean of σ; None for a point."""
    path: str | None = None
    text: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Item:
    """One item of an index, with its embedding of one row."""

    id: str
    kind: Kind
    path: str | None
    text: str | None
    embedding: Embedding
    metadata: Mapping[str, object]

    @classmethod
    def of(cls, row: Mapping[str, Any], embedding: Embedding) -> "Item":
        """From a row of the table; metadata without a value are left out."""
        metadata = {key: value for key, value in row.items() if value is not None and key not in RESERVED}
        return cls(row["id"], row["kind"], row["path"], row["text"], embedding, metadata)

    @property
    def uncertainty(self) -> float | None:
        """The geometric mean of σ; None for a point."""
        return float(self.embedding.uncertainty()[0]) if isinstance(self.embedding, Gaussian) else None

    def record(self) -> dict[str, object]:
        """The fields of a hit that do not depend on a query, for JSON."""
        names = ("id", "kind", "path", "text", "uncertainty", "metadata")
        return {name: _plain(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class QueryInfo:
    """What is known of the query."""

    uncertainty: float | None
    """The geometric mean of σ; None for a point and for a combined query."""
    percentile: float | None
    """Percentage of the calibration queries that are less uncertain."""
    expected_matches: float | None
    """Σ match probability over all items searched; beyond some thousand items estimated."""
    answerable: bool | None
    """Whether anything here matches, as far as the model knows."""
    note: str | None = None
    """A reason to doubt the hits, such as words that the model does not know."""


@dataclass(frozen=True)
class Hits:
    """The best items, best first.

    >>> query = QueryInfo(0.1, None, 1.5, True)
    >>> hits = Hits(query, (Hit(1, "a.jpg", "image", -0.1, 0.9, 0.9, 0.05),), 10, False, True)
    >>> len(hits), hits.ids, hits[0].match_probability
    (1, ['a.jpg'], 0.9)
    """

    query: QueryInfo
    hits: tuple[Hit, ...]
    searched: int
    """The number of items searched."""
    calibrated: bool
    """False: probabilities are the model's own, and may be overconfident (`pcme calibrate`)."""
    exact: bool
    """True: the k best of all items, with proof; else nearly (`pcme index tune`)."""

    @property
    def ids(self) -> list[str]:
        """The ids, best first."""
        return [hit.id for hit in self.hits]

    def above(self, threshold: float) -> "Hits":
        """Only hits whose match probability is at least `threshold`."""
        require("threshold", 0 <= threshold <= 1, "a probability in [0, 1]", threshold)
        if any(hit.match_probability is None for hit in self.hits):
            raise ConfigError(
                "threshold: these hits have no match probability, their score is a distance. Leave the threshold out, "
                "or create an index with a score such as csd_prob."
            )
        passing = (hit for hit in self.hits if (hit.match_probability or 0.0) >= threshold)
        return replace(self, hits=tuple(passing))

    def record(self) -> dict[str, object]:
        """The JSON that `pcme search --json` prints."""
        names = ("rank", "id", "kind", "path", "text", "match_probability", "uncertainty", "metadata")
        return {
            "query": asdict(self.query),
            "hits": [{name: _plain(getattr(hit, name)) for name in names} for hit in self.hits],
            "searched": self.searched,
            "calibrated": self.calibrated,
            "exact": self.exact,
        }

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]


def _plain(value: object) -> object:
    """A value that JSON can hold: dates as ISO 8601, bytes as text, other things as `str`.

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
