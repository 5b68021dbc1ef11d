"""Calibration curves: monotone maps of log-odds, and their fit.

There are many millions of pairs and few of them match, so the fit is on a fine histogram of their log-odds. In log-odds
one in a million, which counts among a million items, is as far from one in a thousand as that is from even.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from numpy.typing import ArrayLike
from pydantic import ConfigDict
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, logit

from pcme.core.checks import require_known
from pcme.errors import DataError, ShapeError
from pcme.uncertainty.statistics import Binned

METHODS = ("isotonic", "platt")
LOW, HIGH = -64.0, 32.0
"""Log-odds are clipped to these: no probability that matters lies outside."""
PER_UNIT = 32
"""Bins of the histogram per unit of log-odds: within one, p differs by 3 % of itself."""
AT_LEAST = 10
"""The least number of matching pairs, and of others, per knot."""


@dataclass(frozen=True)
class Curve:
    """A rising map of log-odds, linear between its knots; beyond them it continues with `slope`.

    >>> curve = Curve((0.0, 2.0), (-1.0, 0.0), slope=1.0)
    >>> curve(np.array([-1.0, 1.0, 3.0]))
    array([-2. , -0.5,  1. ])
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    x: tuple[float, ...]
    y: tuple[float, ...]
    slope: float

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or not self.x:
            raise ShapeError(f"curve: needs as many x as y, got {len(self.x)} and {len(self.y)}.")
        if np.any(np.diff(self.x) <= 0) or np.any(np.diff(self.y) < 0) or not self.slope > 0:
            raise DataError("curve: must rise from knot to knot, and beyond them.")

    def __call__(self, odds: Float64[np.ndarray, "*n"]) -> Float64[np.ndarray, "*n"]:
        """Map log-odds."""
        beyond = odds - np.clip(odds, self.x[0], self.x[-1])
        return np.asarray(np.interp(odds, self.x, self.y) + self.slope * beyond)


@dataclass
class Histogram(Binned):
    """Numbers of pairs (`count`) and of matching pairs (`true`) per bin of log-odds.

    >>> counted = Histogram()
    >>> counted.add(np.log([0.5, 0.5, 0.9]), np.array([True, False, True]))
    >>> int(counted.count.sum()), int(counted.true.sum())
    (3, 2)
    """

    bins: int = round((HIGH - LOW) * PER_UNIT)
    low: ClassVar[float] = LOW
    high: ClassVar[float] = HIGH

    def add(self, values: Float[np.ndarray, "*n"], truth: Bool[np.ndarray, "*n"]) -> None:
        """Add pairs: the log of their match probability, and whether they match."""
        super().add(log_odds(values), truth)


def log_odds(log_p: ArrayLike) -> Float64[np.ndarray, "*n"]:
    """log p/(1 − p) from log p, accurate near 0 and near 1, clipped to LOW and HIGH.

    >>> log_odds(np.log([0.5, 1.0]))
    array([ 0., 32.])
    """
    x = np.asarray(log_p, np.float64)
    if not np.all(x <= 1e-6):  # also NaN; a little above 0 is rounding
        raise DataError(f"log_p: the log of a probability is at most 0, got {x.max()}.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(x - np.log(-np.expm1(np.minimum(x, 0.0))), LOW, HIGH))


def fit_curve(counted: Histogram, method: str = "isotonic") -> Curve:
    """Fit the curve after which a share p of the pairs with probability p match.

    - "isotonic": any rising curve. Pool-adjacent-violators on the histogram; pools are joined until each holds ten
      matches and ten others, and stand as one knot at their mean, so that the curve rises strictly where they differ
      (centred isotonic regression, Oron and Flournoy 2017). Beyond the outer knots it continues with Platt's slope.
    - "platt": a straight line in log-odds, by maximum likelihood (Platt 1999).
    """
    require_known("method", method, METHODS)
    matching, pairs = int(counted.true.sum()), int(counted.count.sum())
    if not 0 < matching < pairs:
        raise DataError(f"pairs: matching and others are needed, got {matching:,} of {pairs:,}. Give a larger split.")
    line = _platt(counted)
    return line if method == "platt" else _isotonic(counted, line.slope)


def _isotonic(counted: Histogram, slope: float) -> Curve:
    pairs, total, matching = counted.filled()
    starts = isotonic_regression(matching / pairs, weights=pairs).blocks[:-1]
    starts = starts[_joined(np.add.reduceat(matching, starts), np.add.reduceat(pairs, starts))]
    pairs, total, matching = (np.add.reduceat(part, starts) for part in (pairs, total, matching))
    knots = np.clip(matching, 0.5, pairs - 0.5) / pairs  # of an only pool without one of the kinds
    return Curve(tuple((total / pairs).tolist()), tuple(logit(knots).tolist()), slope)


def _joined(matching: Float64[np.ndarray, " b"], pairs: Float64[np.ndarray, " b"]) -> Int64[np.ndarray, " c"]:
    """The pools that remain when each absorbs those after it until it has enough of both kinds."""
    starts, held = [0], np.zeros(2)
    for index, (match, pair) in enumerate(zip(matching.tolist(), pairs.tolist(), strict=True)):
        if held.min() >= AT_LEAST:
            starts.append(index)
            held[:] = 0
        held += match, pair - match
    if held.min() < AT_LEAST and len(starts) > 1:
        starts.pop()  # the rest joins the pool before it
    return np.array(starts)


def _platt(counted: Histogram) -> Curve:
    """The line of the greatest likelihood, with Platt's targets, which keep it finite."""
    pairs, total, matching = counted.filled()
    others = pairs - matching
    above, below = (matching.sum() + 1) / (matching.sum() + 2), 1 / (others.sum() + 2)
    target = matching * above + others * below
    centre = np.average(total / pairs, weights=pairs)
    x = total / pairs - centre
    scale = max(np.sqrt(np.average(x**2, weights=pairs)), 1e-6)

    def loss(line: Float64[np.ndarray, " 2"]) -> tuple[float, Float64[np.ndarray, " 2"]]:
        odds = line[0] * x / scale + line[1]
        error = pairs * expit(odds) - target
        value = (pairs * np.logaddexp(0, odds) - target * odds).sum() / pairs.sum()
        return value, np.array([(error * x / scale).sum(), error.sum()]) / pairs.sum()

    start = np.array([1.0, logit(target.sum() / pairs.sum())])
    slope, height = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-10}).x.tolist()
    if slope <= 0:
        raise DataError("pairs: the higher the score, the fewer match. Check that the model belongs to these data.")
    return Curve((float(centre),), (height,), float(slope / scale))
