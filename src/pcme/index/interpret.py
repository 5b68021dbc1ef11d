"""Interpreter: from scores to calibrated probabilities, expected matches, "nothing matches"."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64

from pcme.errors import ConfigError
from pcme.index.hits import Hit, Hits, QueryInfo
from pcme.index.queries import EncodedQuery, Ranked
from pcme.index.rows import RESERVED
from pcme.scores.combine import Calibrate
from pcme.uncertainty import Confidence

LEAST_P = 0.5
"""Without calibration, a best match below this probability counts as none."""


@dataclass(frozen=True)
class Interpreter:
    """Whether scores are log probabilities, and how they are calibrated, if at all."""

    is_probability: bool
    confidence: Confidence | None
    least_p: float | None = None
    """The least best p of an answerable query; None leaves it to the confidence."""

    @classmethod
    def covering(cls, is_probability: bool, confidence: Confidence | None, min_coverage: float | None) -> "Interpreter":
        """The interpreter that answers at least this share of the answerable calibration queries."""
        if min_coverage is None:
            return cls(is_probability, confidence)
        if confidence is None or not is_probability:
            raise ConfigError("min_coverage: the model is not calibrated. Run `pcme calibrate` on it first.")
        return cls(is_probability, confidence, confidence.threshold(min_coverage=min_coverage).value)

    @property
    def calibrate(self) -> Calibrate | None:
        """From log p to calibrated log p; None without a confidence."""
        return None if self.confidence is None else self.confidence.log_probability

    def hits(self, query: EncodedQuery, ranked: Ranked, rows: Mapping[str, dict[str, Any]]) -> Hits:
        """The hits of a query; `rows` are those of its ids, less any that were just deleted."""
        p = self._probability(query, ranked.scores) if self.is_probability else None
        raw = _raw(ranked.scores) if self.is_probability and not query.combined else None
        hits = [
            Hit(
                rank=n + 1,
                id=name,
                kind=rows[name]["kind"],
                score=float(ranked.scores[n]),
                match_probability=None if p is None else float(p[n]),
                raw_probability=None if raw is None else float(raw[n]),
                uncertainty=None if ranked.uncertainty is None else float(ranked.uncertainty[n]),
                path=rows[name]["path"],
                text=rows[name]["text"],
                metadata={key: x for key, x in rows[name].items() if x is not None and key not in RESERVED},
            )
            for n, name in enumerate(ranked.ids)
            if name in rows
        ]
        info = self._query_info(query, ranked, p)
        return Hits(info, tuple(hits), ranked.searched, self.confidence is not None, ranked.exact)

    def answerable(self, best_p: float, searched: int) -> bool:
        """Whether the best p among this many items is high enough to say that something matches."""
        if not searched:
            return False
        if self.least_p is not None:
            return best_p >= self.least_p
        if self.confidence is None:
            return best_p >= LEAST_P
        return self.confidence.answerable(best_p, gallery=searched)

    def _query_info(self, query: EncodedQuery, ranked: Ranked, p: Float64[np.ndarray, " k"] | None) -> QueryInfo:
        uncertainty, percentile = query.uncertainty(), None
        if p is None:
            return QueryInfo(uncertainty, None, None, None, query.note)
        if self.confidence is not None and uncertainty is not None and query.side is not None:
            percentile = float(self.confidence.percentile(uncertainty, side=query.side))
        expected = ranked.expected_matches(lambda scores: self._probability(query, scores))
        best_p = float(p[0]) if len(p) else 0.0
        answerable = query.note is None and self.answerable(best_p, ranked.searched)
        return QueryInfo(uncertainty, percentile, expected, answerable, query.note)

    def _probability(self, query: EncodedQuery, scores: Float[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """Calibrated where possible; the parts of a combination have been calibrated before."""
        if self.confidence is None or query.combined is not None:
            return _raw(scores)
        return self.confidence.probability(scores)


def _raw(scores: Float[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    p: Float64[np.ndarray, " n"] = np.exp(np.minimum(scores.astype(np.float64), 0.0))
    return p
