"""Evaluate a run: its model on a split of its data, by one score or by many."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pcme import data
from pcme.core import files
from pcme.data.dataset import CaptionDataset, Dataset
from pcme.data.loading.batches import FeatureRows
from pcme.data.problems import Problems
from pcme.errors import ConfigError
from pcme.evaluation.bootstrap import intervals
from pcme.evaluation.choice import ALL, chosen, names_of
from pcme.evaluation.costs import Cost, cost
from pcme.evaluation.embed import Embedded, embed
from pcme.evaluation.passes import evaluated, name_of
from pcme.evaluation.protocols import protocol
from pcme.evaluation.results import WAYS, Evaluation
from pcme.model import Model, load
from pcme.model.frozen import kept
from pcme.recipes.schema import Recipe

__all__ = ["Report", "Waiting", "dataset_of", "embedded", "evaluate", "split_of"]

HELD_BACK = "val"
"""The split of images that a run held back from training to judge itself on."""

SUMMARY = "summary.json"

Waiting = Callable[[str, int, int], None]
"""(what, done, total): so much of something is done."""


@dataclass(frozen=True)
class Report:
    """Evaluations of one run on one split, one by each score; what was wrong with the data."""

    run: Path
    results: tuple[Evaluation, ...]
    costs: tuple[Cost, ...]
    """What each of the scores costs here."""
    notes: tuple[str, ...]
    problems: Problems

    def save(self, folder: str | Path) -> None:
        """Write a .npz file for each score, and all figures with their intervals as JSON."""
        target = files.ensure_folder(folder, "the results' folder")
        for result in self.results:
            result.save(target / f"{result.score}.npz")
        pairs = zip(self.results, self.costs, strict=True)
        text = json.dumps([_summary(*pair) for pair in pairs], indent=2)
        files.write_text(target / SUMMARY, text + "\n")


def evaluate(
    run: str | Path,
    *,
    data_root: Path | None = None,
    split: str = "test",
    scores: str | Sequence[str] | None = None,
    workers: int = 2,
    waiting: Waiting = lambda what, done, total: None,
) -> Report:
    """What the model of a run comes to on a split: by its own score, "all", or those named."""
    folder, problems = Path(run), Problems()
    if scores not in (None, ALL):
        names_of(scores)  # a wrong name is said before anything is embedded
    model = load(folder)
    loaded = split_of(model.recipe, split, data_root=data_root, problems=problems)
    found = embedded(model, loaded, problems, workers=workers, waiting=waiting)
    asked = chosen(scores, model.score(), found.images, found.captions)
    rules = protocol(found.dataset)
    results = [
        evaluated(
            score,
            found.images,
            found.captions,
            rules,
            progress=partial(waiting, f"scores: {name_of(score)}"),
        )
        for score in asked.scores
    ]
    costs = tuple(cost(score, found.captions) for score in asked.scores)
    return Report(folder, tuple(results), costs, (*asked.notes, *rules.notes), problems)


def dataset_of(recipe: Recipe, data_root: Path | None = None) -> Dataset:
    """The data of a recipe, in `data_root`, where the recipe says, or below $PCME_DATA."""
    kind, params = recipe.data.kind, recipe.data.params
    on_disk = bool(data.registry.get(kind).layout)
    if data_root is not None and not on_disk:
        raise ConfigError(
            f"{kind} is drawn, not read, and has no folder - got {data_root} - leave --data-root "
            "out"
        )
    if data_root is not None:
        return data.create(kind, **{**params, "root": data_root})
    if on_disk and "root" not in params:
        return data.find(kind)
    return data.create(kind, **params)


def split_of(
    recipe: Recipe,
    split: str,
    *,
    data_root: Path | None = None,
    problems: Problems | None = None,
) -> CaptionDataset:
    """A split of a run's data; "val" is also what the run held back from its training images."""
    dataset, share = dataset_of(recipe, data_root), recipe.validation.share
    held_back = share is not None and HELD_BACK not in dataset.splits
    if held_back and share is not None and split == HELD_BACK:
        return dataset.load(recipe.train_split, problems).divided(share)[1]
    if split not in dataset.splits:
        there = [*dataset.splits, *([f"{HELD_BACK} (held back)"] if held_back else [])]
        raise ConfigError(
            f'{recipe.data.kind} has no split "{split}" - it has: {", ".join(there)} - choose one '
            "with --split"
        )
    return dataset.load(split, problems)


def embedded(
    model: Model,
    dataset: CaptionDataset,
    problems: Problems,
    *,
    workers: int = 2,
    waiting: Waiting = lambda what, done, total: None,
) -> Embedded:
    """The split's embeddings; what a backbone that no run changes makes of it is kept."""
    features = _features(model, dataset, problems, workers, waiting)
    return embed(
        model,
        dataset,
        problems,
        workers=workers,
        features=features,
        progress=partial(waiting, "images"),
        captions_progress=partial(waiting, "captions"),
    )


def _features(
    model: Model, dataset: CaptionDataset, problems: Problems, workers: int, waiting: Waiting
) -> FeatureRows | None:
    phases = model.recipe.phases
    untouched = all(phase.backbone == "frozen" and phase.task == "match" for phase in phases)
    if dataset.image_vectors is not None or not untouched:
        return None
    return kept(
        model,
        dataset,
        model.transform,
        workers=workers,
        problems=problems,
        progress=partial(waiting, "features of the images"),
    )


def _summary(result: Evaluation, spent: Cost) -> dict[str, Any]:
    """The figures of a score with their intervals, and what it costs."""
    spans = {
        way: {
            name: None if math.isnan(span.low) else [span.low, span.high]
            for name, span in intervals(result.way(way)).items()
        }
        for way in WAYS
    }
    about = {"dataset": result.dataset, "parameters": result.parameters, "notes": result.notes}
    return {**result.record(), "intervals": spans, "cost": asdict(spent), **about}
