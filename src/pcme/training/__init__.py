"""Training: from a recipe to a run; start reading with `loop`."""

from pcme.training.loop import train
from pcme.training.runs import Reporter, Run

__all__ = ["Reporter", "Run", "train"]
