"""Prepare a run from a recipe: data, vocabulary, word vectors, model; the batches of each phase."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, takewhile
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
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
from pcme.data.text.word_vectors import WordVectors
from pcme.errors import ConfigError, DataError
from pcme.evaluation.open_run import find_dataset
from pcme.kernels.devices import AUTO, DeviceLike
from pcme.model import Model
from pcme.model.frozen import cached_features
from pcme.nn.heads import linear
from pcme.recipes.schema import Phase, Recipe
from pcme.training.average import ExponentialAverage
from pcme.training.phases import learning_blocks
from pcme.training.precision import Precision
from pcme.training.runs import Reporter, Run
from pcme.training.text_towers import caption_states, require_towers


def prepare_run(
    recipe: Recipe,
    out: Path,
    data_root: Path | None,
    workers: int,
    strict: bool,
    reporter: Reporter,
    device: DeviceLike = AUTO,
) -> Run:
    """A run at its first step; `out` is its folder, made if need be."""
    dataset, problems = find_dataset(recipe, data_root), Problems(strict=strict)
    train_set = dataset.load(recipe.train_split, problems)
    if recipe.validation.share is None:
        held_out = dataset.load(recipe.validation.split, problems)
    else:
        train_set, held_out = train_set.divided(recipe.validation.share)
    if recipe.sampling.matches == "image":
        train_set = train_set.matching_image()
    _require_contrasts(train_set, recipe)
    train_set = replace(train_set, images=CachedImages(train_set.images))
    val_set = _validation_set(held_out, recipe)
    _require_fitting_vectors(recipe, train_set)
    vocab = Vocab.build(train_set.captions, recipe.words.min_count)
    model = Model(recipe, vocab, _word_vectors(recipe, vocab, reporter)).move(device)
    require_towers(recipe, model)
    precision = Precision(recipe.precision, model.device)
    average = ExponentialAverage(model, recipe.average) if recipe.average else None
    probe = _probe(recipe, model, train_set)
    run = Run(recipe, out, model, train_set, val_set, problems, precision, average, probe, workers, reporter)
    _refuse_long_warmups(run)
    wanted, images = recipe.sampling.batch_size, len(train_set.images)
    if recipe.sampling.kind == "pairs" and wanted > images:
        reporter.note(f"sampling.batch_size={wanted} is cut to {images}, the images of {train_set.where}")
    matching = sum(phase.epochs for phase in recipe.phases if phase.task == "match")
    model.objective.set_total_steps(matching * len(run.sampler))
    files.ensure_folder(out, "the run's folder")
    return run


def loader(run: Run) -> Loader:
    """The batches of the present phase: pixels, or the features of a frozen backbone."""
    augment = run.recipe.augment
    transform = replace(
        run.model.transform,
        crop=augment.crop,
        flip=augment.flip,
        cutout=augment.cutout,
        # a label whose pixels are gone cannot be named
        erasing=augment.erasing if run.phase.task == "match" else 0.0,
    )
    stored = run.train_set.image_vectors
    return Loader(
        run.train_set,
        run.sampler,
        run.model.tokeniser,
        transform,
        seed=run.recipe.seed,
        word_drop=augment.word_drop,
        word_erasing=augment.word_erasing,
        workers=run.workers,
        features=_features(run, transform) if stored is None else [stored],
        states=caption_states(run),
        problems=run.problems,
        pinned=run.model.device.type == "cuda",
    )


def validation_features(run: Run) -> FeatureRows | None:
    """The cached features of the validation images, while no phase has trained the backbone.

    Trained weights are this run's own: no other run would look for their features.
    """
    so_far = run.recipe.phases[: run.position.phase + 1]
    untouched = all(phase.backbone == "frozen" and phase.task == "match" for phase in so_far)
    if run.val_set.image_vectors is not None or not untouched:
        return None
    progress = named(run.reporter.progress, "features of the validation images")
    return cached_features(
        run.model, run.val_set, run.model.transform, workers=run.workers, problems=run.problems, progress=progress
    )


def _require_contrasts(dataset: CaptionDataset, recipe: Recipe) -> None:
    """Refuse a dataset of which a batch holds a single pair, which has nothing to differ from.

    Paper: §3.1, Eq. (1), whose negatives are the other pairs of the batch.
    """
    if len(dataset.images) < 2:
        raise DataError(
            f"{dataset.where}: training contrasts pairs, so it needs at least 2 usable images, got "
            f"{len(dataset.images)}. Add images, or choose another train_split."
        )
    classes = dataset.classes if recipe.sampling.kind == "one-per-class" else None
    if classes is not None and len(np.unique(classes.values)) < 2:
        raise DataError(
            f"{dataset.where}: has a single class, so a batch of one pair per class is one pair, which has nothing to "
            "differ from. Set sampling.kind=pairs."
        )


def _require_fitting_vectors(recipe: Recipe, dataset: CaptionDataset) -> None:
    """Refuse vectors that the backbones do not take, and pixels where they take vectors."""
    sides = (("image", recipe.image, dataset.image_vectors), ("caption", recipe.caption, dataset.caption_vectors))
    for side, backbone, vectors in sides:
        needed = backbone.params.get("features") if backbone.kind == "precomputed" else None
        width = None if vectors is None else vectors.width
        if needed != width:
            has = f"vectors of {width} numbers" if width else "no vectors"
            remedy = (
                f"Set {side}.kind=precomputed and {side}.features={width}."
                if width
                else f'Use data of kind "precomputed", or another {side} backbone.'
            )
            raise ConfigError(
                f"{dataset.where}: has {has} for its {side}s, and the {side} backbone is "
                f"{backbone.kind}{f' of {needed}' if needed else ''}. {remedy}"
            )


def _refuse_long_warmups(run: Run) -> None:
    for number, phase in enumerate(run.recipe.phases):
        steps = phase.epochs * len(run.sampler)
        if phase.warmup_steps > steps:
            raise ConfigError(
                f"phases.{number}.warmup_steps: must be at most the phase's {steps:,} steps ({phase.epochs:,} epochs "
                f"of {len(run.sampler):,} batches), got {phase.warmup_steps:,}. Set it to {steps // 2}, or more epochs."
            )


def _validation_set(split: CaptionDataset, recipe: Recipe) -> CaptionDataset:
    """The split to validate on; when it has too many captions, a seeded choice of images."""
    images, captions = len(split.images), len(split.captions)
    if not images or not captions:
        raise DataError(
            f"{split.where}: has no usable images or captions to validate on. Set another validation.split."
        )
    count = max(1, int(recipe.validation.max_captions / (captions / images)))
    if count >= images:
        return split
    order = numpy_stream(recipe.seed, "validation").permutation(images)
    return split.subset(np.sort(order[:count]))


def _word_vectors(recipe: Recipe, vocab: Vocab, reporter: Reporter) -> Float[Tensor, "v e"]:
    generator = torch_stream(recipe.seed, "init", "vectors")
    source = recipe.words.vectors
    if source is None:
        return torch.randn(len(vocab), recipe.words.dim, generator=generator)
    stored = WordVectors.from_package() if source == "package" else WordVectors.from_text(Path(source), vocab)
    vectors, coverage = stored.matrix(vocab, generator)
    reporter.note(str(coverage))
    return vectors


def _probe(recipe: Recipe, model: Model, train_set: CaptionDataset) -> nn.Linear | None:
    if all(phase.task == "match" for phase in recipe.phases):
        return None
    if train_set.labels is None:
        raise ConfigError(
            f'{train_set.where}: has no labels, which a phase with task="labels" needs. Leave that phase out, or use a '
            "backbone with weights."
        )
    generator = torch_stream(recipe.seed, "init", "probe")
    return linear(model.images.network.features, len(train_set.labels.names), generator).to(model.device)


def _features(run: Run, transform: ImageTransform) -> Sequence[FeatureRows]:
    """The output of the backbone's frozen part for every view; nothing where it must run again."""
    if not _is_cached(run, run.phase):
        return ()
    views = 1 if transform.deterministic else run.recipe.augment.views
    if views is None:
        run.reporter.note(
            "images are augmented, so the frozen backbone runs at every step; augment.views=4 caches its features of "
            "four draws of every image"
        )
        return ()
    # The inputs of later phases are cached in the same pass, while the blocks below those that learn are still as now.
    cached = takewhile(lambda phase: _is_cached(run, phase), run.recipe.phases[run.position.phase :])
    *ahead, top = sorted({*accumulate(map(learning_blocks, cached), max)}, reverse=True)
    return [
        cached_features(
            run.model,
            run.train_set,
            transform,
            top=top,
            ahead=ahead,
            view=view,
            workers=run.workers,
            problems=run.problems,
            progress=part_of(run.reporter.progress, view, views),
        )
        for view in range(views)
    ]


def _is_cached(run: Run, phase: Phase) -> bool:
    """Whether the phase starts from the cached output of the backbone, or of a part of it."""
    network = run.model.images.network
    partly = network.chained and 0 < learning_blocks(phase) < len(network.blocks())
    return phase.task == "match" and (phase.backbone == "frozen" or partly)
