"""Runs: a training run, its position, and the reporter that follows it."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from pcme.data.dataset import CaptionDataset
from pcme.data.loading.offline import OfflineNegatives
from pcme.data.loading.samplers import OnePerClass, Sampler, ShuffledPairs
from pcme.data.problems import Problems
from pcme.model import Model
from pcme.model.card import Figures
from pcme.recipes.schema import Phase, Recipe
from pcme.training.average import ExponentialAverage
from pcme.training.precision import Precision

CHECKPOINTS = "checkpoints"


class Reporter:
    """Follows a run, silently; the command line has one that draws."""

    def begin(self, run: "Run") -> None:
        """Training starts or resumes."""

    def step(self, run: "Run", values: Mapping[str, float]) -> None:
        """A step is done."""

    def progress(self, task: str, done: int, total: int | None, /) -> None:
        """A `Progress` for tasks that come before the next step."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def validated(self, run: "Run", figures: Figures) -> None:
        """A validation is done."""


@dataclass
class Position:
    """The position of a run: the next step, and the best validation so far."""

    phase: int = 0
    epoch: int = 0
    step: int = 0
    total: int = 0
    best: float = -math.inf
    """The best mean R-Precision of a validation; `best_figures` are all of its figures."""
    best_step: int = 0
    best_figures: Figures = field(default_factory=dict)
    waited: int = 0
    """Validations of this phase since the best one."""
    logged: int = 0
    """Bytes of metrics.jsonl up to here."""


@dataclass
class Run:
    """A training run: its model, its data, and how far it is."""

    recipe: Recipe
    folder: Path
    model: Model
    train_set: CaptionDataset
    val_set: CaptionDataset
    problems: Problems
    precision: Precision
    average: ExponentialAverage | None
    probe: nn.Linear | None
    """Names the labels from the backbone's features, for phases whose task that is."""
    workers: int
    reporter: Reporter
    position: Position = field(default_factory=Position)
    events: Any = None
    """TensorBoard's SummaryWriter, where it is installed."""
    offline: OfflineNegatives | None = None
    """The negatives that were mined from the training set, once a loss has wanted them."""
    within_step: bool = False
    """Whether a step is under way, so that the weights are neither the old nor the new ones."""

    @property
    def phase(self) -> Phase:
        """The phase that is trained."""
        return self.recipe.phases[self.position.phase]

    @property
    def checkpoints(self) -> Path:
        """The folder of the run's state."""
        return self.folder / CHECKPOINTS

    @property
    def total_steps(self) -> int:
        """All steps of all phases."""
        return len(self.sampler) * sum(phase.epochs for phase in self.recipe.phases)

    @cached_property
    def sampler(self) -> Sampler:
        """The pairs of each batch."""
        sampling, seed = self.recipe.sampling, self.recipe.seed
        if sampling.kind == "pairs":
            size = min(sampling.batch_size, len(self.train_set.images))
            return ShuffledPairs(
                self.train_set,
                size,
                seed=seed,
                afresh=sampling.afresh,
                drop_last=True,
                captions_per_image=sampling.captions_per_image,
            )
        classes = sampling.classes_per_batch
        return OnePerClass(self.train_set, seed=seed, classes_per_batch=classes, afresh=sampling.afresh)

    @cached_property
    def trained_on(self) -> dict[str, str | int]:
        """The training set by name, size, and a digest of its ids, captions and truth."""
        data, digest = self.train_set, hashlib.sha256()
        for truth in (data.facts, data.said, data.caption_image):
            digest.update(np.ascontiguousarray(truth).tobytes())
        # A drawn dataset's captions follow from what they say, and cost more to write than to read.
        texts = data.captions if data.writer is None else ()
        for text in chain(map(data.images.id, range(len(data.images))), texts):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        counts = {"images": len(data.images), "captions": len(data.captions)}
        return {"name": data.where, **counts, "digest": digest.hexdigest()}
