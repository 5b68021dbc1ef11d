"""Preparing: from a recipe to everything a run works with.

The data, the vocabulary, the word vectors, the model; and the batches of each phase.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pcme.core import files
from pcme.core.progress import named, part_of
from pcme.core.random import numpy_stream, torch_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.transforms import ImageTransform
from pcme.data.loading.batches import FeatureRows, Loader
from pcme.data.problems import Problems
from pcme.data.sources import CachedImages
from pcme.data.text.tokens import Vocab
from pcme.data.text.word_vectors import Coverage, WordVectors
from pcme.errors import ConfigError, DataError
from pcme.evaluation.open_run import find_dataset
from pcme.model import Model
from pcme.model.frozen import cached_features, cached_stages
from pcme.nn.heads import linear
from pcme.recipes.schema import Phase, Recipe
from pcme.training.optim import ExponentialAverage
from pcme.training.precision import Precision
from pcme.training.runs import Reporter, Run

__all__ = ["loader", "prepared", "validation_features"]


def prepared(
    recipe: Recipe,
    out: Path,
    data_root: Path | None,
    workers: int,
    strict: bool,
    reporter: Reporter,
) -> Run:
    """A run at its beginning; `out` is its folder, made if need be."""
    dataset, problems = find_dataset(recipe, data_root), Problems(strict=strict)
    loaded = dataset.load(recipe.train_split, problems)
    if recipe.validation.share is None:
        held_back = dataset.load(recipe.validation.split, problems)
    else:
        loaded, held_back = loaded.divided(recipe.validation.share)
    loaded = _contrastable(loaded, recipe)
    train_set = replace(loaded, images=CachedImages(loaded.images))
    val_set = _validation_set(held_back, recipe)
    _require_fitting_vectors(recipe, train_set)
    vocab = Vocab.build(train_set.captions, recipe.words.min_count)
    vectors, coverage = _vectors(recipe, vocab)
    if coverage is not None:
        reporter.note(str(coverage))
    model = Model(recipe, vocab, vectors)
    precision = Precision(recipe.precision, model.device)
    average = ExponentialAverage(model, recipe.average) if recipe.average else None
    probe = _probe(recipe, model, train_set)
    run = Run(
        recipe, out, model, train_set, val_set, problems, precision, workers,
        average=average, probe=probe,
    )  # fmt: skip
    _refuse_long_warmups(run)
    matching = sum(phase.epochs for phase in recipe.phases if phase.task == "match")
    model.objective.set_total_steps(matching * len(run.sampler))
    files.ensure_folder(out, "the run's folder")
    return run


def loader(run: Run, phase: Phase, reporter: Reporter) -> Loader:
    """The batches of a phase: pixels, or the features of a backbone that is held."""
    recipe = run.recipe
    augment = recipe.augment
    transform = replace(
        run.model.transform,
        crop=augment.crop,
        flip=augment.flip,
        cutout=augment.cutout,
        # a label whose pixels are gone cannot be named
        erasing=augment.erasing if phase.task == "match" else 0.0,
    )
    stored = run.train_set.image_vectors
    features = _features(run, phase, transform, reporter) if stored is None else [stored]
    return Loader(
        run.train_set,
        run.sampler,
        run.model.tokeniser,
        transform,
        seed=recipe.seed,
        word_drop=augment.word_drop,
        word_erasing=augment.word_erasing,
        workers=run.workers,
        features=features,
        problems=run.problems,
    )


def validation_features(run: Run, phase: Phase, reporter: Reporter) -> FeatureRows | None:
    """What a backbone that no run changes makes of the validation images, for all runs.

    Weights that this run has trained are its own: nobody would look for their features again.
    """
    so_far = run.recipe.phases[: run.recipe.phases.index(phase) + 1]
    untouched = all(part.backbone == "frozen" and part.task == "match" for part in so_far)
    if run.val_set.image_vectors is not None or not untouched:
        return None
    return cached_features(
        run.model,
        run.val_set,
        run.model.transform,
        workers=run.workers,
        problems=run.problems,
        progress=named(reporter.progress, "features of the validation images"),
    )


def _contrastable(dataset: CaptionDataset, recipe: Recipe) -> CaptionDataset:
    """The dataset, if a batch of it can hold two pairs: one pair alone has nothing to differ from.

    Paper: §3.1, Eq. (1), whose negatives are the other pairs of the batch.
    """
    if len(dataset.images) < 2:
        raise DataError(
            f"{dataset.where} has {len(dataset.images)} usable images - training contrasts pairs, "
            "so it needs at least 2 - add images, or choose another train_split"
        )
    if recipe.sampling.kind == "one-per-class" and dataset.classes is not None:
        known = np.unique(dataset.classes.values)
        if len(known) < 2:
            raise DataError(
                f"{dataset.where} has a single class, so that a batch of one pair per class is one "
                "pair, which has nothing to differ from - set sampling.kind=pairs"
            )
    return dataset


def _require_fitting_vectors(recipe: Recipe, dataset: CaptionDataset) -> None:
    """Refuse vectors that the backbones do not take, and pixels where they take vectors."""
    sides = (
        ("image", recipe.image, dataset.image_vectors),
        ("caption", recipe.caption, dataset.caption_vectors),
    )
    for side, chosen, stored in sides:
        wanted = chosen.params.get("features") if chosen.kind == "precomputed" else None
        given = None if stored is None else stored.width
        if wanted != given:
            has = f"vectors of {given} numbers" if given else "no vectors"
            mend = (
                f"set {side}.kind=precomputed and {side}.features={given}"
                if given
                else f'use data of kind "precomputed", or another {side} backbone'
            )
            raise ConfigError(
                f"{dataset.where} has {has} for its {side}s, and the {side} backbone is "
                f"{chosen.kind}{f' of {wanted}' if wanted else ''} - {mend}"
            )


def _refuse_long_warmups(run: Run) -> None:
    for number, phase in enumerate(run.recipe.phases):
        steps = phase.epochs * len(run.sampler)
        if phase.warmup_steps > steps:
            raise ConfigError(
                f"phases.{number} has {steps:,} steps ({phase.epochs:,} epochs of "
                f"{len(run.sampler):,} batches), fewer than its warmup_steps of "
                f"{phase.warmup_steps:,} - set phases.{number}.warmup_steps={steps // 2}, or more "
                "epochs"
            )


def _validation_set(whole: CaptionDataset, recipe: Recipe) -> CaptionDataset:
    """What is judged on; when it has too many captions, the images of a seeded choice."""
    if not len(whole.images) or not len(whole.captions):
        raise DataError(
            f"{whole.where} has no usable images or captions to validate on - set another "
            "validation.split"
        )
    limit = recipe.validation.max_captions
    per_image = len(whole.captions) / len(whole.images)
    count = max(1, int(limit / per_image))
    if count >= len(whole.images):
        return whole
    order = numpy_stream(recipe.seed, "validation").permutation(len(whole.images))
    return whole.subset(np.sort(order[:count]))


def _vectors(recipe: Recipe, vocab: Vocab) -> tuple[Tensor, Coverage | None]:
    generator = torch_stream(recipe.seed, "init", "vectors")
    source = recipe.words.vectors
    if source is None:
        return torch.randn(len(vocab), recipe.words.dim, generator=generator), None
    vectors = (
        WordVectors.from_package()
        if source == "package"
        else WordVectors.from_text(Path(source), vocab)
    )
    return vectors.matrix(vocab, generator)


def _probe(recipe: Recipe, model: Model, train_set: CaptionDataset) -> nn.Linear | None:
    if all(phase.task == "match" for phase in recipe.phases):
        return None
    if train_set.labels is None:
        raise ConfigError(
            f'{train_set.where} has no labels, which a phase with task="labels" needs - leave that '
            "phase out, or use a backbone with weights"
        )
    generator = torch_stream(recipe.seed, "init", "probe")
    return linear(model.images.network.features, len(train_set.labels.names), generator)


def _features(
    run: Run, phase: Phase, transform: ImageTransform, reporter: Reporter
) -> Sequence[FeatureRows]:
    """What the held part of the backbone makes of every view; nothing where it must run again.

    A frozen backbone is held as a whole; one whose last blocks learn, up to those.
    """
    if not _is_held(run, phase):
        return ()
    views = 1 if transform.deterministic else run.recipe.augment.views
    if views is None:
        reporter.note(
            "images are augmented, so the held backbone runs at every step - augment.views=4 keeps "
            "its features of four draws of every image"
        )
        return ()
    # What later phases take is kept in the same pass: the backbone runs once for all of them.
    tops = [*_tops_ahead(run, phase), _top(phase)]
    return [
        cached_stages(
            run.model,
            run.train_set,
            transform,
            tops,
            view=view,
            workers=run.workers,
            problems=run.problems,
            progress=part_of(reporter.progress, view, views),
        )[-1]
        for view in range(views)
    ]


def _is_held(run: Run, phase: Phase) -> bool:
    """Whether the phase takes what a part of the backbone gives, and that can be kept."""
    network = run.model.images.network
    partly = network.chained and 0 < _top(phase) < len(network.blocks())
    return phase.task == "match" and (phase.backbone == "frozen" or partly)


def _top(phase: Phase) -> int:
    """How many of the last blocks learn in a phase that holds the others."""
    return phase.backbone if isinstance(phase.backbone, int) else 0


def _tops_ahead(run: Run, phase: Phase) -> list[int]:
    """Of the phases after this one, the blocks that learn, while those below are still as now."""
    number = run.recipe.phases.index(phase)
    tops: list[int] = []
    lowest = _top(phase)
    for later in run.recipe.phases[number + 1 :]:
        if not _is_held(run, later):
            break
        if _top(later) > lowest:
            lowest = _top(later)
            tops.insert(0, lowest)
    return tops
