"""A distribution by its quantiles: what is kept of many numbers in a small file."""

import numpy as np
from jaxtyping import Float, Float64
from numpy.typing import ArrayLike

from pcme.errors import ConfigError, DataError

__all__ = ["Quantiles", "checked_share", "quantiles", "require_rising", "share_below", "value_at"]

STEPS = 400
"""How finely: 401 numbers, a quarter of a percent apart."""

Quantiles = tuple[float, ...]
"""Of equal steps, from the least to the greatest."""


def quantiles(values: Float[np.ndarray, " n"]) -> Quantiles:
    """The quantiles of these numbers.

    >>> quantiles(np.array([3.0, 1.0]))[::200]
    (1.0, 2.0, 3.0)
    """
    if not len(values) or not np.all(np.isfinite(values)):
        raise DataError(f"quantiles are of finite numbers, one or more - got {len(values)}")
    places = np.linspace(0, 1, STEPS + 1)
    return tuple(np.quantile(values.astype(np.float64), places).tolist())


def share_below(kept: Quantiles, values: ArrayLike) -> Float64[np.ndarray, "*n"]:
    """The share of the distribution below each value, and half of what equals it: 0 to 1.

    >>> share_below((1.0, 2.0, 3.0), [0.0, 1.5, 9.0])
    array([0.  , 0.25, 1.  ])
    """
    grid, places = np.asarray(kept), np.linspace(0, 1, len(kept))
    given = np.asarray(values, np.float64)
    # of equal quantiles np.interp finds the last, and from the other side the first
    upper = np.interp(given, grid, places)
    lower = 1 - np.interp(-given, -grid[::-1], places)
    return (upper + lower) / 2


def value_at(kept: Quantiles, share: float) -> float:
    """The value below which this share of the distribution lies.

    >>> value_at((1.0, 2.0, 3.0), 0.75)
    2.5
    """
    return float(np.interp(checked_share(share, "share"), np.linspace(0, 1, len(kept)), kept))


def require_rising(kept: Quantiles, name: str) -> None:
    """Refuse what cannot be quantiles."""
    if len(kept) < 2 or np.any(np.diff(kept) < 0):
        raise DataError(f"{name}: quantiles do not fall, and there are two of them or more")


def checked_share(share: float, name: str) -> float:
    """The share, or a ConfigError when it is not one.

    >>> checked_share(0.1, "false_alarm")
    0.1
    """
    if not 0 <= share <= 1:
        raise ConfigError(f"{name} is a share from 0 to 1 - got {share}")
    return share
