"""The no-match rule: from the best hit and the gallery's size, whether anything matches.

The more items there are, the nearer is the nearest miss of a caption without a match. Where x are calibrated log-odds,
a share 1/(1 + eˣ) ≈ e⁻ˣ of the items at x are wrong. Among n items the best wrong one then stands near log n + c, if a
query's items are spread evenly over x. Its growth when n grows e-fold is measured (about 1 for one model, a third for
another: docs/science/calibration.md), and subtracted before a best hit is judged.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike
from pydantic import ConfigDict
from scipy.special import expit

from pcme.core.checks import require
from pcme.errors import DataError
from pcme.uncertainty.curve import log_odds
from pcme.uncertainty.quantiles import Quantiles, checked_share, quantiles, require_rising, share_below, value_at


@dataclass(frozen=True)
class NoMatchRule:
    """Quantiles of the log-odds of the best hit, of queries without a match (`absent`) and with one (`present`).

    They are those among `gallery` items; `growth` is added to the former when the gallery grows e-fold.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    gallery: int
    growth: float
    absent: Quantiles
    present: Quantiles
    false_alarm: float
    """The default share of queries without a match that are answered all the same."""

    def __post_init__(self) -> None:
        require_rising(self.absent, "absent")
        require_rising(self.present, "present")
        checked_share(self.false_alarm, "false_alarm")
        if self.gallery < 1 or self.growth < 0:
            raise DataError(f"gallery must be ≥ 1 and growth ≥ 0, got {self.gallery} and {self.growth}.")

    def alarm(self, best_p: ArrayLike, gallery: int | None = None) -> Float64[np.ndarray, "*n"]:
        """How often the best of so many items is this good or better when nothing matches.

        >>> rule = NoMatchRule(1000, 1.0, (-4.0, -2.0, 0.0), (2.0, 4.0), false_alarm=0.1)
        >>> [float(rule.alarm(0.5, n).round(2)) for n in (1000, 7389, 54598)]
        [0.0, 0.5, 1.0]
        """
        with np.errstate(divide="ignore"):
            odds = log_odds(np.log(np.asarray(best_p, np.float64)))
        return np.asarray(1 - share_below(self.absent, odds - self._grown(gallery)))

    def threshold(self, gallery: int | None = None, false_alarm: float | None = None) -> float:
        """The probability the best of so many items must have, for this share of false alarms.

        Beyond `reach` it is constant: where near misses are as good as half of the matches, nothing tells them apart.
        """
        odds, room = self._least(false_alarm)
        return float(expit(odds + min(self._grown(gallery), room)))

    def reach(self, false_alarm: float | None = None) -> float:
        """The number of items up to which the share of false alarms holds."""
        _, room = self._least(false_alarm)
        with np.errstate(over="ignore"):
            return self.gallery * float(np.exp(room / self.growth)) if self.growth else float("inf")

    def _grown(self, gallery: int | None) -> float:
        """How much this gallery adds to the log-odds of the best hit, against the calibration's."""
        if gallery is None:
            return 0.0
        require("gallery", gallery >= 1, "one item or more", gallery)
        return self.growth * float(np.log(gallery / self.gallery))

    def _least(self, false_alarm: float | None) -> tuple[float, float]:
        """(log-odds that this share of the best wrong hits exceed, how far half of the matches lie above)."""
        share = self.false_alarm if false_alarm is None else false_alarm
        odds = value_at(self.absent, 1 - checked_share(share, "false_alarm"))
        return odds, max(0.0, value_at(self.present, 0.5) - odds)


def fit_no_match_rule(
    sizes: Int64[np.ndarray, " s"],
    absent: Float64[np.ndarray, "s q"],
    present: Float64[np.ndarray, " p"],
    *,
    false_alarm: float,
) -> NoMatchRule:
    """Fit the rule to the log-odds of the best wrong item among the first n (−∞: all match), and of the best hit.

    The growth is the slope of the mean over the queries that have a wrong item at every size.
    """
    everywhere = np.isfinite(absent).all(0)
    if not everywhere.any():
        raise DataError("every caption matches every image. Give a split of different things.")
    growth = 0.0
    if len(sizes) > 1:
        growth = max(0.0, float(np.polyfit(np.log(sizes), absent[:, everywhere].mean(1), 1)[0]))
    last = absent[-1][np.isfinite(absent[-1])]
    return NoMatchRule(int(sizes[-1]), growth, quantiles(last), quantiles(present), false_alarm)
