"""Fit a confidence: one pass over all pairs, in memory that does not grow with their number."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, Int64

from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.scores.base import Score
from pcme.uncertainty.confidence import Basis, Confidence
from pcme.uncertainty.curve import Histogram, fit_curve, log_odds
from pcme.uncertainty.evaluation_set import EvaluationSet, log_probabilities
from pcme.uncertainty.no_match import fit_no_match_rule
from pcme.uncertainty.quantiles import Quantiles, quantiles
from pcme.uncertainty.risk_coverage import risk_coverage

FALSE_ALARM = 0.1
"""The default share of queries without a match that are answered all the same."""
DOUBLINGS = 2
"""Growth is measured on this many halvings of the gallery too; among fewer items it is too bad to tell."""


@dataclass
class BestHits:
    """The log-odds of each caption's best image, and of its best wrong ones; filled block by block."""

    order: Int64[np.ndarray, " g"] | slice
    """Images in the order in which galleries of growing `sizes` take them."""
    sizes: Int64[np.ndarray, " s"]
    _blocks: list[tuple[Float64[np.ndarray, " b"], Bool[np.ndarray, " b"], Float64[np.ndarray, "s b"]]] = field(
        default_factory=list
    )

    def add(self, odds: Float64[np.ndarray, "b g"], truth: Bool[np.ndarray, "b g"]) -> None:
        """Add a block of captions."""
        rows, first = np.arange(len(odds)), odds.argmax(1)
        wrong = np.where(truth, -np.inf, odds)[:, self.order]
        by_part = np.maximum.reduceat(wrong, np.concatenate([[0], self.sizes[:-1]]), axis=1)
        self._blocks.append((odds[rows, first], truth[rows, first], np.maximum.accumulate(by_part, axis=1).T))

    def joined(self) -> tuple[Float64[np.ndarray, " q"], Bool[np.ndarray, " q"], Float64[np.ndarray, "s q"]]:
        """Per caption: its best image, whether that matches, and the best wrong one of each gallery (−∞: none)."""
        best, right, wrong = zip(*self._blocks, strict=True)
        return np.concatenate(best), np.concatenate(right), np.concatenate(wrong, 1)


def observe(score: Score, pairs: EvaluationSet) -> tuple[Histogram, BestHits]:
    """Pass over all pairs once, in the model's own log-odds."""
    order = numpy_stream(0, "gallery").permutation(len(pairs.images))
    sizes = np.unique([max(1, len(order) >> n) for n in range(DOUBLINGS + 1)])
    counted, hits = Histogram(), BestHits(order, sizes)
    for _, log_p, truth in log_probabilities(score, pairs):
        counted.add(log_p, truth)
        hits.add(log_odds(log_p), truth)
    return counted, hits


def fit(
    score: Score, pairs: EvaluationSet, *, model: str, method: str = "isotonic", false_alarm: float = FALSE_ALARM
) -> Confidence:
    """Fit the confidence of a model, given by its `fingerprint`, on an evaluation set."""
    counted, hits = observe(score, pairs)
    curve = fit_curve(counted, method)
    best, right, wrong = hits.joined()
    answerable = pairs.matches.answerable
    best, right = curve(best)[answerable], right[answerable]
    queries, gallery = pairs.matches.shape
    share = len(pairs.matches.indices) / (queries * gallery)
    sigma = pairs.captions.uncertainty()
    return Confidence(
        model=model,
        basis=Basis(pairs.where, method, queries, gallery, share),
        curve=curve,
        presence=fit_no_match_rule(hits.sizes, curve(wrong), best, false_alarm=false_alarm),
        by_p=risk_coverage(best, right),
        by_sigma=None if sigma is None else risk_coverage(-sigma.numpy()[answerable], right),
        captions=_quantiles(pairs.captions),
        images=_quantiles(pairs.images),
    )


def _quantiles(items: Embedding) -> Quantiles | None:
    sigma = items.uncertainty()
    return None if sigma is None else quantiles(sigma.numpy())
