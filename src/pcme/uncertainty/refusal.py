"""What is gained by refusing to answer: the risk of the answers that are left, by their share."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64
from pydantic import ConfigDict

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.uncertainty.quantiles import checked_share

__all__ = ["Cut", "Refusal", "area", "refusal", "risk_by_coverage"]

PERCENT = 100


@dataclass(frozen=True)
class Cut:
    """Answer from `value` on: then this share of queries is answered, and this share of it wrongly.

    Wrong is a query whose first hit is no match (1 − R@1).
    """

    value: float
    coverage: float
    risk: float


@dataclass(frozen=True)
class Refusal:
    """At each percent of coverage: the least sureness that is answered, and the risk of those."""

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    sureness: tuple[float, ...]
    risk: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sureness) != PERCENT or len(self.risk) != PERCENT:
            raise DataError(f"a curve has a value for each of {PERCENT} percents")
        if np.any(np.diff(self.sureness) > 0) or not 0 <= min(self.risk) <= max(self.risk) <= 1:
            raise DataError("sureness falls as more is answered, and a risk lies from 0 to 1")

    def covering(self, coverage: float) -> Cut:
        """The cut that answers at least this share of queries."""
        percent = max(1, int(np.ceil(PERCENT * checked_share(coverage, "min_coverage") - 1e-9)))
        return self._cut(percent)

    def risking(self, risk: float) -> Cut:
        """The cut that answers the most queries at no more than this risk."""
        able = np.flatnonzero(np.asarray(self.risk) <= checked_share(risk, "max_risk"))
        if not len(able):
            raise ConfigError(
                f"no cut has a risk of {risk:g} or less - the least is {min(self.risk):.3g} - "
                "allow more, or improve the model"
            )
        return self._cut(int(able[-1]) + 1)

    def _cut(self, percent: int) -> Cut:
        return Cut(self.sureness[percent - 1], percent / PERCENT, self.risk[percent - 1])


def refusal(sureness: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> Refusal:
    """The curve of queries of which each is more or less sure, and right or wrong."""
    risk = risk_by_coverage(sureness, right)
    last = np.ceil(np.arange(1, PERCENT + 1) / PERCENT * len(risk) - 1e-9).astype(np.int64) - 1
    order = -np.sort(-sureness.astype(np.float64))
    return Refusal(tuple(order[last].tolist()), tuple(risk[last].tolist()))


def risk_by_coverage(
    sureness: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]
) -> Float64[np.ndarray, " n"]:
    """The share of wrong answers among the 1, 2, ... n surest queries.

    Of queries that are equally sure each counts as the mean of them, so that their order is naught.

    >>> risk_by_coverage(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]))
    array([0.        , 0.25      , 0.33333333])
    """
    if sureness.shape != right.shape or sureness.ndim != 1 or not len(right):
        raise ShapeError(
            f"one sureness and one truth a query - got {sureness.shape} and {right.shape}"
        )
    _, group = np.unique(-sureness, return_inverse=True)
    wrong = np.bincount(group, ~right) / np.bincount(group)
    return np.cumsum(wrong[np.sort(group)]) / np.arange(1, len(right) + 1)


def area(sureness: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> float:
    """AURC: the mean risk over all coverages; the lower, the better the sureness (and the model).

    >>> area(np.array([0.9, 0.1]), np.array([True, False]))
    0.25
    """
    return float(risk_by_coverage(sureness, right).mean())
