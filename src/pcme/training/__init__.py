"""Training: from a recipe to a run, resumable to the bit; `loop` is the place to start reading."""

from pcme.training.loop import train
from pcme.training.runs import Reporter, Run

__all__ = ["Reporter", "Run", "train"]
