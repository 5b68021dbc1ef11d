"""Shared by the tests of training: the smallest recipes, ways to stop a run, ways to compare runs."""

import json

import pytest
import torch
from safetensors.torch import load_file

from pcme.training import Reporter, train
from tests.models import SHORT, TINY

__all__ = ["SHORT", "TINY"]

NO_WARMUP = ["phases.0.warmup_steps=0", "phases.1.warmup_steps=0"]
"""For datasets so small that a phase has but a step or two."""


SMALL = (
    'image={"kind":"convnet","widths":[8]}', 'words={"dim":8}', "augment.size=16", "dim=8",
    'phases=[{"epochs":1,"learning_rate":0.001}]',
)  # fmt: skip
"""Changes of a recipe of photographs that make it train in a second."""


class Interrupt(Reporter):
    """Stops the run after so many steps, as a crash would."""

    def __init__(self, after, error=RuntimeError):
        self.left, self.error = after, error

    def step(self, run, values):
        self.left -= 1
        if self.left == 0:
            raise self.error("stopped by the test")


def train_cut(recipe, folder, after, error=RuntimeError, **options):
    """Train a run until it is stopped after so many steps."""
    with pytest.raises(error, match="stopped"):
        train(recipe, folder, reporter=Interrupt(after, error), **options)


class Notes(Reporter):
    """Collects the notes of a run."""

    def __init__(self):
        self.texts = []

    def note(self, text):
        self.texts.append(text)


def weights(folder):
    return load_file(folder / "weights.safetensors")


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def same_run(left, right):
    """Whether two runs came to the same: the best and the last weights, and every step."""
    parts = all(same(weights(left / part), weights(right / part)) for part in (".", "last"))
    return parts and logged(left) == logged(right)


def logged(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "time"} for line in lines]


def losses(folder):
    return [line["loss"] for line in logged(folder) if "loss" in line]
