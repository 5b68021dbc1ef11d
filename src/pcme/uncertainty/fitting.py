"""Fit a confidence: one pass over all pairs, in memory that does not grow with their number."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64, Int64

from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.scores.base import Score
from pcme.uncertainty.confidence import Basis, Confidence
from pcme.uncertainty.curve import Curve, Histogram, fit_curve, log_odds
from pcme.uncertainty.evaluation_set import EvaluationSet, log_probabilities
from pcme.uncertainty.no_match import fit_no_match_rule
from pcme.uncertainty.quantiles import Quantiles, quantiles
from pcme.uncertainty.risk_coverage import risk_coverage

FALSE_ALARM = 0.1
"""The default share of queries without a match that are answered all the same."""

DOUBLINGS = 2
"""The growth of the best wrong hit is measured on a quarter of the items, half of them, and all;
among fewer it is too bad to tell how it continues."""


@dataclass
class BestHits:
    """The best image of each caption, and the best wrong one; filled block by block."""

    order: Int64[np.ndarray, " g"] | None = None
    """Images in the order in which galleries of growing `sizes` take them."""
    sizes: Int64[np.ndarray, " s"] | None = None
    best: list[Float64[np.ndarray, " b"]] = field(default_factory=list)
    right: list[Bool[np.ndarray, " b"]] = field(default_factory=list)
    wrong: list[Float64[np.ndarray, "s b"]] = field(default_factory=list)

    def add(self, odds: Float64[np.ndarray, "b g"], truth: Bool[np.ndarray, "b g"]) -> None:
        """Add a block of captions."""
        first = odds.argmax(1)[:, None]
        self.best.append(np.take_along_axis(odds, first, 1)[:, 0])
        self.right.append(np.take_along_axis(truth, first, 1)[:, 0])
        wrong = np.where(truth, -np.inf, odds)
        if self.order is None or self.sizes is None:
            self.wrong.append(wrong.max(1)[None])
        else:
            self.wrong.append(_best_of_first(wrong[:, self.order], self.sizes))


@dataclass(frozen=True)
class Observations:
    """The pairs of an evaluation set, in the model's own log-odds."""

    counted: Histogram
    best: Float64[np.ndarray, " q"]
    """Of each caption with its best image."""
    right: Bool[np.ndarray, " q"]
    """Whether that image matches."""
    sizes: Int64[np.ndarray, " s"]
    wrong: Float64[np.ndarray, "s q"]
    """Of each caption with its best wrong image among the first so many, in random order; −∞ where
    all of them match."""


def observe(score: Score, pairs: EvaluationSet, *, seed: int = 0) -> Observations:
    """Pass over all pairs once."""
    order = numpy_stream(seed, "gallery").permutation(len(pairs.images))
    sizes = np.unique([max(1, len(order) >> n) for n in range(DOUBLINGS + 1)])
    counted, hits = Histogram(), BestHits(order, sizes)
    for _, log_p, truth in log_probabilities(score, pairs):
        counted.add(log_p, truth)
        hits.add(log_odds(log_p), truth)
    best, right = np.concatenate(hits.best), np.concatenate(hits.right)
    return Observations(counted, best, right, sizes, np.concatenate(hits.wrong, 1))


def fit(
    score: Score, pairs: EvaluationSet, *, model: str, method: str = "isotonic", false_alarm: float = FALSE_ALARM
) -> Confidence:
    """Fit the confidence of a model, given by its `fingerprint`, on an evaluation set."""
    seen = observe(score, pairs)
    curve = fit_curve(seen.counted, method)
    answered = pairs.matches.answerable
    best, right = curve(seen.best)[answered], seen.right[answered]
    wrong = _mapped(curve, seen.wrong)
    sigma = pairs.captions.uncertainty()
    return Confidence(
        model=model,
        basis=_basis(pairs, method),
        curve=curve,
        presence=fit_no_match_rule(seen.sizes, wrong, best, false_alarm=false_alarm),
        by_p=risk_coverage(best, right),
        by_sigma=None if sigma is None else risk_coverage(-sigma.numpy()[answered], right),
        captions=_quantiles(pairs.captions),
        images=_quantiles(pairs.images),
    )


def _best_of_first(odds: Float64[np.ndarray, "b g"], sizes: Int64[np.ndarray, " s"]) -> Float64[np.ndarray, "s b"]:
    """The greatest of the first so many columns, for each of the rising sizes."""
    starts = np.concatenate([[0], sizes[:-1]])
    return np.maximum.accumulate(np.maximum.reduceat(odds, starts, axis=1), axis=1).T


def _mapped(curve: Curve, odds: Float64[np.ndarray, "s q"]) -> Float64[np.ndarray, "s q"]:
    """The calibrated log-odds; −∞ stays."""
    known = np.isfinite(odds)
    return np.where(known, curve(np.where(known, odds, 0.0)), -np.inf)


def _basis(pairs: EvaluationSet, method: str) -> Basis:
    queries, gallery = pairs.matches.shape
    share = len(pairs.matches.indices) / (queries * gallery)
    return Basis(pairs.where, method, queries, gallery, share)


def _quantiles(items: Embedding) -> Quantiles | None:
    sigma = items.uncertainty()
    return None if sigma is None else quantiles(sigma.numpy())
