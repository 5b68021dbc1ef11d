"""Fit a confidence: one pass over all pairs of a part, whose memory does not grow with them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.scores.base import Score
from pcme.uncertainty.confidence import Basis, Confidence
from pcme.uncertainty.curve import Curve, Histogram, fitted, log_odds
from pcme.uncertainty.parts import Part, log_probabilities, uncertainty
from pcme.uncertainty.presence import presence
from pcme.uncertainty.quantiles import Quantiles, quantiles
from pcme.uncertainty.refusal import refusal

__all__ = ["FALSE_ALARM", "Observed", "fit", "observed"]

FALSE_ALARM = 0.1
"""Of queries that nothing matches, the share that is answered unless asked otherwise."""

DOUBLINGS = 2
"""A quarter of the items, half of them, and all show how the best wrong hit grows; among fewer, it
is still so bad that it tells nothing of how it goes on."""


@dataclass(frozen=True)
class Observed:
    """What all pairs of a part have to say, in the model's own log-odds."""

    counted: Histogram
    best: Float64[np.ndarray, " q"]
    """Of each caption with the image that it fits best."""
    right: Bool[np.ndarray, " q"]
    """Whether that image is a match."""
    sizes: Int64[np.ndarray, " s"]
    wrong: Float64[np.ndarray, "s q"]
    """Of each caption with the best of those that do not match among the first so many images, in
    random order; −∞ where all of them match."""


def observed(score: Score, part: Part, *, seed: int = 0) -> Observed:
    """One pass over all pairs."""
    order = numpy_stream(seed, "gallery").permutation(len(part.images))
    sizes = np.unique([max(1, len(order) >> n) for n in range(DOUBLINGS + 1)])
    counted = Histogram()
    best, right, wrong = [], [], []
    for _, log_p, truth in log_probabilities(score, part):
        counted.add(log_p, truth)
        odds = log_odds(log_p)
        first = odds.argmax(1)[:, None]
        best.append(np.take_along_axis(odds, first, 1)[:, 0])
        right.append(np.take_along_axis(truth, first, 1)[:, 0])
        wrong.append(_best_of_first(np.where(truth, -np.inf, odds)[:, order], sizes))
    return Observed(
        counted, np.concatenate(best), np.concatenate(right), sizes, np.concatenate(wrong, 1)
    )


def fit(
    score: Score,
    part: Part,
    *,
    model: str,
    method: str = "isotonic",
    false_alarm: float = FALSE_ALARM,
) -> Confidence:
    """The confidence of a model (by its `fingerprint`) in what it says of a part."""
    seen = observed(score, part)
    curve = fitted(seen.counted, method)
    answered = part.matches.answerable
    best, right = curve(seen.best)[answered], seen.right[answered]
    spread = uncertainty(part.captions)
    return Confidence(
        model=model,
        basis=_basis(part, method),
        curve=curve,
        presence=presence(seen.sizes, _mapped(curve, seen.wrong), best, false_alarm=false_alarm),
        by_p=refusal(best, right),
        by_sigma=None if spread is None else refusal(-spread[answered], right),
        captions=_quantiles(part.captions),
        images=_quantiles(part.images),
    )


def _best_of_first(
    odds: Float64[np.ndarray, "q g"], sizes: Int64[np.ndarray, " s"]
) -> Float64[np.ndarray, "s q"]:
    """The greatest of the first so many columns, for each of the rising sizes."""
    starts = np.concatenate([[0], sizes[:-1]])
    return np.maximum.accumulate(np.maximum.reduceat(odds, starts, axis=1), axis=1).T


def _mapped(curve: Curve, odds: Float64[np.ndarray, "s q"]) -> Float64[np.ndarray, "s q"]:
    """The calibrated log-odds; −∞ stays."""
    known = np.isfinite(odds)
    return np.where(known, curve(np.where(known, odds, 0.0)), -np.inf)


def _basis(part: Part, method: str) -> Basis:
    queries, gallery = part.matches.shape
    share = len(part.matches.indices) / (queries * gallery)
    return Basis(part.where, method, queries, gallery, share)


def _quantiles(items: Embedding) -> Quantiles | None:
    spread = uncertainty(items)
    return None if spread is None else quantiles(spread)
