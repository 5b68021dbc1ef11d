"""Is there a match here at all? Decided from the best hit, with the gallery's size in mind.

The best of many is high by chance alone: the more items there are, the nearer is the nearest miss
of a caption that nothing fits. Where x are calibrated log-odds, a share 1/(1 + eˣ) ≈ e⁻ˣ of the
items at x are wrong, so that among n items the best wrong one stands near log n + c where a query's
items are spread evenly over x. How much it grows when n grows e-fold is measured (about 1 for one
model, a third for another: docs/science/calibration.md), and taken off before a best hit is judged.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike
from pydantic import ConfigDict
from scipy.special import expit

from pcme.errors import ConfigError, DataError
from pcme.uncertainty.curve import log_odds
from pcme.uncertainty.quantiles import (
    Quantiles,
    checked_share,
    quantiles,
    require_rising,
    share_below,
    value_at,
)

__all__ = ["Presence", "presence"]


@dataclass(frozen=True)
class Presence:
    """How good the best hit is where something matches and where nothing does.

    `absent` and `present` are quantiles of the log-odds of the best hit among `gallery` items;
    `growth` is what an e-fold of items adds to it where nothing matches.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    gallery: int
    growth: float
    absent: Quantiles
    present: Quantiles
    false_alarm: float
    """The share of queries without a match that may be answered all the same, unless asked."""

    def __post_init__(self) -> None:
        require_rising(self.absent, "absent")
        require_rising(self.present, "present")
        checked_share(self.false_alarm, "false_alarm")
        if self.gallery < 1 or self.growth < 0:
            raise DataError(f"{self.gallery} items and a growth of {self.growth} cannot be")

    def alarm(self, best_p: ArrayLike, gallery: int | None = None) -> Float64[np.ndarray, "*n"]:
        """How often the best of so many items is this good or better when nothing matches.

        >>> rule = Presence(1000, 1.0, (-4.0, -2.0, 0.0), (2.0, 4.0), false_alarm=0.1)
        >>> [float(rule.alarm(0.5, n).round(2)) for n in (1000, 7389, 54598)]
        [0.0, 0.5, 1.0]
        """
        with np.errstate(divide="ignore"):
            odds = log_odds(np.log(np.asarray(best_p, np.float64)))
        return 1 - share_below(self.absent, odds - self.grown(gallery))

    def threshold(self, gallery: int | None = None, false_alarm: float | None = None) -> float:
        """The probability the best of so many items must have, for this share of false alarms.

        Beyond `reach` it rises no further: where near misses are as good as half of the matches, no
        threshold tells them apart, and to refuse everything would be no answer.
        """
        odds = self._least(false_alarm)
        return float(expit(odds + min(self.grown(gallery), self._room(odds))))

    def reach(self, false_alarm: float | None = None) -> float:
        """The number of items up to which the share of false alarms holds."""
        room = self._room(self._least(false_alarm))
        with np.errstate(over="ignore"):
            return self.gallery * float(np.exp(room / self.growth)) if self.growth else float("inf")

    def _least(self, false_alarm: float | None) -> float:
        """The log-odds that this share of the best wrong hits exceed at calibration."""
        share = self.false_alarm if false_alarm is None else false_alarm
        return value_at(self.absent, 1 - checked_share(share, "false_alarm"))

    def _room(self, odds: float) -> float:
        """How far a threshold can rise until it refuses half of what has a match."""
        return max(0.0, value_at(self.present, 0.5) - odds)

    def grown(self, gallery: int | None) -> float:
        """What so many items add to the log-odds of the best one, compared with the calibration."""
        if gallery is None:
            return 0.0
        if gallery < 1:
            raise ConfigError(f"a gallery has at least one item - got {gallery}")
        return self.growth * float(np.log(gallery / self.gallery))


def presence(
    sizes: Int64[np.ndarray, " s"],
    absent: Float64[np.ndarray, "s q"],
    present: Float64[np.ndarray, " p"],
    *,
    false_alarm: float,
) -> Presence:
    """The rule from the log-odds of the best wrong item among the first n, and of the best of all.

    `absent` has −∞ where all of the n items match. The growth is the slope of the mean over the
    queries that have a wrong item at every size.
    """
    everywhere = np.isfinite(absent).all(0)
    if not everywhere.any():
        raise DataError("every caption matches every image - give a split of different things")
    growth = 0.0
    if len(sizes) > 1:
        growth = max(0.0, float(np.polyfit(np.log(sizes), absent[:, everywhere].mean(1), 1)[0]))
    last = absent[-1][np.isfinite(absent[-1])]
    return Presence(int(sizes[-1]), growth, quantiles(last), quantiles(present), false_alarm)
