"""Calibration: the protocol of the confidence.json beside a model.

`pcme.uncertainty` stands above `model`, since it embeds and evaluates in order to fit. The class that reads the file
therefore registers itself here, and a model finds it through the registry.
"""

from pathlib import Path
from typing import Protocol

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from pcme.core.registry import Registry


class Calibration(Protocol):
    """The meaning of a model's log match probabilities, fitted on held-out data."""

    def probability(self, log_p: ArrayLike) -> Float64[np.ndarray, "*n"]:
        """The calibrated match probability; it keeps the order of the scores."""

    def log_probability(self, log_p: ArrayLike) -> Float64[np.ndarray, "*n"]:
        """The log of it."""

    @classmethod
    def load(cls, folder: str | Path) -> "Calibration | None":
        """The calibration of the model in a folder; None where there is none."""


calibrations: Registry[Calibration] = Registry("calibration", "pcme.uncertainty")
