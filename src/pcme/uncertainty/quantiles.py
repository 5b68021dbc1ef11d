"""A distribution by its quantiles, small enough for a file."""

import numpy as np
from jaxtyping import Float, Float64
from numpy.typing import ArrayLike

from pcme.core.checks import require
from pcme.errors import DataError

STEPS = 400
"""Equal steps of the share: quantiles lie a quarter of a percent apart."""
Quantiles = tuple[float, ...]
"""The values at equal steps of the share, from the least to the greatest."""


def quantiles(values: Float[np.ndarray, " n"]) -> Quantiles:
    """The quantiles of these numbers.

    >>> quantiles(np.array([3.0, 1.0]))[::200]
    (1.0, 2.0, 3.0)
    """
    if not len(values) or not np.all(np.isfinite(values)):
        raise DataError(f"quantiles: one finite number or more is needed, got {len(values)}.")
    return tuple(np.quantile(values.astype(np.float64), np.linspace(0, 1, STEPS + 1)).tolist())


def share_below(stored: Quantiles, values: ArrayLike) -> Float64[np.ndarray, "*n"]:
    """The share of the distribution below each value, and half of what equals it: 0 to 1.

    >>> share_below((1.0, 2.0, 3.0), [0.0, 1.5, 9.0])
    array([0.  , 0.25, 1.  ])
    """
    grid, shares = np.asarray(stored), np.linspace(0, 1, len(stored))
    x = np.asarray(values, np.float64)
    # of equal quantiles np.interp finds the last, and from the other side the first
    return np.asarray((np.interp(x, grid, shares) + (1 - np.interp(-x, -grid[::-1], shares))) / 2)


def value_at(stored: Quantiles, share: float) -> float:
    """The value below which this share of the distribution lies.

    >>> value_at((1.0, 2.0, 3.0), 0.75)
    2.5
    """
    return float(np.interp(checked_share(share, "share"), np.linspace(0, 1, len(stored)), stored))


def require_rising(stored: Quantiles, name: str) -> None:
    """Refuse values that cannot be quantiles."""
    if len(stored) < 2 or np.any(np.diff(stored) < 0):
        raise DataError(f"{name}: quantiles must not fall, and be two or more.")


def checked_share(share: float, name: str) -> float:
    """The share; a ConfigError when it is not one."""
    require(name, 0 <= share <= 1, "a share in [0, 1]", share)
    return share
