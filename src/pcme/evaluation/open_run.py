"""Open a run: find its data, load its model and a split, and embed the split."""

from functools import partial
from pathlib import Path

from pcme import data
from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.layout import Dataset
from pcme.data.problems import Problems
from pcme.errors import ConfigError
from pcme.evaluation.embed import Embedded, embed
from pcme.evaluation.subject import Subject
from pcme.kernels.devices import AUTO, DeviceLike
from pcme.model import Model, load
from pcme.model.frozen import cached_features
from pcme.recipes.schema import Recipe

HELD_OUT = "val"
"""The split of images that a run held out from training for validation."""


def open_run(
    run: str | Path | Model,
    *,
    split: str = "test",
    data_root: Path | None = None,
    workers: int = 2,
    problems: Problems | None = None,
    progress: Progress = silent,
    device: DeviceLike = AUTO,
) -> Subject:
    """Load a run's model, unless it is given, and its split on first use; unusable items are reported to `problems`."""
    model = run if isinstance(run, Model) else load(run, device=device)
    noted = Problems() if problems is None else problems
    return Subject(
        model,
        partial(load_split, model.recipe, split, data_root=data_root, problems=noted),
        partial(embed_split, model, problems=noted, workers=workers, progress=progress),
    )


def find_dataset(recipe: Recipe, data_root: Path | None = None) -> Dataset:
    """Find the data of a recipe: in `data_root`, where the recipe says, or below $PCME_DATA."""
    return find_data(recipe.data.kind, data_root, **recipe.data.params)


def find_data(name: str, data_root: Path | None = None, **params: object) -> Dataset:
    """Find a dataset by its name: in `data_root`, where its parameters say, or below $PCME_DATA; or by its folder."""
    if data_root is None:
        return data.create(name, **params) if "root" in params else data.find(name, **params)
    if not data.registry.get(name).layout:
        raise ConfigError(f"{name}: is drawn and has no folder, got {data_root}. Leave --data-root out.")
    return data.create(name, **{**params, "root": data_root})


def load_split(
    recipe: Recipe, split: str, *, data_root: Path | None = None, problems: Problems | None = None
) -> CaptionDataset:
    """Load a split of a run's data; "val" may be the images held out from its training split."""
    dataset, share = find_dataset(recipe, data_root), recipe.validation.share
    known = list(dataset.splits)
    if share is not None and HELD_OUT not in known:
        if split == HELD_OUT:
            return dataset.load(recipe.train_split, problems).divided(share)[1]
        known.append(f"{HELD_OUT} (held out)")
    if split not in dataset.splits:
        raise ConfigError(
            f'{recipe.data.kind}: no split "{split}", it has {", ".join(known)}. Choose one with --split.'
        )
    return dataset.load(split, problems)


def embed_split(
    model: Model, dataset: CaptionDataset, problems: Problems, *, workers: int = 2, progress: Progress = silent
) -> Embedded:
    """Embed a split; the features of a frozen backbone are cached for all runs."""
    features = None
    untouched = all(phase.backbone == "frozen" and phase.task == "match" for phase in model.recipe.phases)
    if dataset.image_vectors is None and untouched:
        features = cached_features(
            model, dataset, model.transform, workers=workers, problems=problems, progress=progress
        )
    return embed(model, dataset, problems, workers=workers, features=features, progress=progress)
