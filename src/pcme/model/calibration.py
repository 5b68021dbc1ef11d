"""Calibration: the protocol of the confidence.json beside a model, and how a model finds it.

`pcme.uncertainty` stands above `model`, since it embeds and evaluates in order to fit. A model
therefore knows this protocol alone; the class that reads the file registers itself here and is
found through the registry, as scores and methods are.
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


def read(folder: Path) -> Calibration | None:
    """The calibration beside the model in a folder; None where it was not calibrated."""
    return calibrations.get("confidence").load(folder)
