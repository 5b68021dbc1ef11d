"""From scores to what they mean: calibrated probabilities, expected matches, "nothing here"."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64

from pcme.errors import ConfigError
from pcme.index.hits import Hit, Hits, QueryInfo
from pcme.index.rows import metadata_of
from pcme.index.wanted import Answer, Wanted
from pcme.uncertainty import Confidence

__all__ = ["SURE", "Judge"]

SURE = 0.5
"""Without calibration, a best match below this probability is none."""


@dataclass(frozen=True)
class Judge:
    """Knows whether scores are log probabilities, and how they were calibrated, if at all."""

    is_probability: bool
    confidence: Confidence | None
    least: float | None = None
    """From which best p on to answer; None leaves it to the confidence."""

    @classmethod
    def covering(
        cls, is_probability: bool, confidence: Confidence | None, min_coverage: float | None
    ) -> "Judge":
        """One that answers at least this share of the calibration's queries, the surest ones."""
        if min_coverage is None:
            return cls(is_probability, confidence)
        if confidence is None or not is_probability:
            raise ConfigError(
                "min_coverage needs a calibrated model - run `pcme calibrate` on it first"
            )
        return cls(
            is_probability, confidence, confidence.threshold(min_coverage=min_coverage).value
        )

    def hits(self, wanted: Wanted, answer: Answer, known: Mapping[str, dict[str, Any]]) -> Hits:
        """The hits; `known` has the row of each, but for one that was deleted a moment ago."""
        p = self._probability(wanted, answer.scores) if self.is_probability else None
        raw = self._raw(answer.scores) if self.is_probability and not wanted.combined else None
        hits = [
            Hit(
                rank=n + 1,
                id=one,
                kind=known[one]["kind"],
                score=float(answer.scores[n]),
                match_probability=None if p is None else float(p[n]),
                raw_probability=None if raw is None else float(raw[n]),
                uncertainty=None if answer.uncertainty is None else answer.uncertainty[n],
                path=known[one]["path"],
                text=known[one]["text"],
                metadata=metadata_of(known[one]),
            )
            for n, one in enumerate(answer.ids)
            if one in known
        ]
        asked = self._asked(wanted, answer, p)
        return Hits(asked, tuple(hits), answer.searched, self.confidence is not None, answer.exact)

    def answerable(self, best: float, searched: int) -> bool:
        """Whether the best p of so many items is good enough to say that something matches."""
        if not searched:
            return False
        if self.least is not None:
            return best >= self.least
        if self.confidence is None:
            return best >= SURE
        return self.confidence.answerable(best, gallery=searched)

    def _asked(
        self, wanted: Wanted, answer: Answer, p: Float64[np.ndarray, " k"] | None
    ) -> QueryInfo:
        if p is None:
            return QueryInfo(wanted.uncertainty(), None, None, None, wanted.note)
        expected = answer.expected(lambda scores: self._probability(wanted, scores))
        best = float(p[0]) if len(p) else 0.0
        return QueryInfo(
            wanted.uncertainty(),
            self._percentile(wanted),
            expected,
            wanted.note is None and self.answerable(best, answer.searched),
            wanted.note,
        )

    def _probability(
        self, wanted: Wanted, scores: Float[np.ndarray, " n"]
    ) -> Float64[np.ndarray, " n"]:
        """Calibrated where it can be; the parts of a combination have been before."""
        if self.confidence is None or wanted.combined is not None:
            return self._raw(scores)
        return self.confidence.probability(scores)

    @staticmethod
    def _raw(scores: Float[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        found: Float64[np.ndarray, " n"] = np.exp(np.minimum(scores.astype(np.float64), 0.0))
        return found

    def _percentile(self, wanted: Wanted) -> float | None:
        u = wanted.uncertainty()
        if self.confidence is None or u is None or wanted.side is None:
            return None
        return float(self.confidence.percentile(u, side=wanted.side))
