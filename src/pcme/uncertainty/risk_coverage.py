"""Risk and coverage: the share of wrong answers (1 − R@1) among those given, when the least sure are refused."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64
from pydantic import ConfigDict

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.uncertainty.quantiles import checked_share

PERCENT = 100


class Threshold(NamedTuple):
    """Answer from `value` on: the share `coverage` of the queries, of which the share `risk` wrongly."""

    value: float
    coverage: float
    risk: float


@dataclass(frozen=True)
class RiskCoverage:
    """At each percent of coverage: the least sureness that is answered, and the risk."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    sureness: tuple[float, ...]
    risk: tuple[float, ...]

    def __post_init__(self) -> None:
        if (lengths := (len(self.sureness), len(self.risk))) != (PERCENT, PERCENT):
            raise DataError(f"sureness and risk: one value per percent is needed, got {lengths}.")
        if np.any(np.diff(self.sureness) > 0) or not 0 <= min(self.risk) <= max(self.risk) <= 1:
            raise DataError("sureness must fall with coverage, and each risk lie in [0, 1].")

    def covering(self, coverage: float) -> Threshold:
        """The threshold that answers at least this share of the queries."""
        share = checked_share(coverage, "min_coverage")
        return self._threshold(max(1, int(np.ceil(PERCENT * share - 1e-9))))

    def risking(self, risk: float) -> Threshold:
        """The threshold that answers the most queries at no more than this risk."""
        able = np.flatnonzero(np.asarray(self.risk) <= checked_share(risk, "max_risk"))
        if not len(able):
            least = f"{min(self.risk):.3g}"
            raise ConfigError(f"max_risk: must be at least {least}, got {risk:g}. Allow more, or improve the model.")
        return self._threshold(int(able[-1]) + 1)

    def _threshold(self, percent: int) -> Threshold:
        return Threshold(self.sureness[percent - 1], percent / PERCENT, self.risk[percent - 1])


def risk_coverage(sureness: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> RiskCoverage:
    """The curve of queries, each with a sureness, and right or wrong."""
    risk = risk_by_coverage(sureness, right)
    last = np.ceil(np.arange(1, PERCENT + 1) / PERCENT * len(risk) - 1e-9).astype(np.int64) - 1
    order = -np.sort(-sureness.astype(np.float64))
    return RiskCoverage(tuple(order[last].tolist()), tuple(risk[last].tolist()))


def risk_by_coverage(sureness: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """The share of wrong answers among the 1, 2, ... n surest queries.

    Equally sure queries count as their mean each, so that their order does not matter.

    >>> risk_by_coverage(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]))
    array([0.        , 0.25      , 0.33333333])
    """
    if sureness.shape != right.shape or sureness.ndim != 1 or not len(right):
        raise ShapeError(f"sureness and right: one value per query, got {sureness.shape} and {right.shape}.")
    _, group = np.unique(-sureness, return_inverse=True)
    wrong = np.bincount(group, ~right) / np.bincount(group)
    return np.cumsum(wrong[np.sort(group)]) / np.arange(1, len(right) + 1)


def area(sureness: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> float:
    """AURC, the mean risk over all coverages: lower is better.

    >>> area(np.array([0.9, 0.1]), np.array([True, False]))
    0.25
    """
    return float(risk_by_coverage(sureness, right).mean())
