"""Prepare a run from a recipe: data, vocabulary, word vectors, model; the batches of each phase."""

from collections.abc import Sequence
from dataclasses import replace
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


def prepare_run(
    recipe: Recipe, out: Path, data_root: Path | None, workers: int, strict: bool, reporter: Reporter
) -> Run:
    """A run at its first step; `out` is its folder, made if need be."""
    dataset, problems = find_dataset(recipe, data_root), Problems(strict=strict)
    loaded = dataset.load(recipe.train_split, problems)
    if recipe.validation.share is None:
        held_out = dataset.load(recipe.validation.split, problems)
    else:
        loaded, held_out = loaded.divided(recipe.validation.share)
    loaded = _contrastable(loaded, recipe)
    train_set = replace(loaded, images=CachedImages(loaded.images))
    val_set = _validation_set(held_out, recipe)
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
    _note_small_batches(run, reporter)
    matching = sum(phase.epochs for phase in recipe.phases if phase.task == "match")
    model.objective.set_total_steps(matching * len(run.sampler))
    files.ensure_folder(out, "the run's folder")
    return run


def loader(run: Run, number: int, reporter: Reporter) -> Loader:
    """The batches of a phase: pixels, or the features of a frozen backbone."""
    recipe, phase = run.recipe, run.recipe.phases[number]
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
    features = _features(run, number, transform, reporter) if stored is None else [stored]
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


def validation_features(run: Run, number: int, reporter: Reporter) -> FeatureRows | None:
    """The cached features of the validation images, while no phase has trained the backbone.

    Trained weights are this run's own: no other run would look for their features.
    """
    so_far = run.recipe.phases[: number + 1]
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
            f"{dataset.where}: training contrasts pairs, so it needs at least 2 usable images, got "
            f"{len(dataset.images)}. Add images, or choose another train_split."
        )
    if recipe.sampling.kind == "one-per-class" and dataset.classes is not None:
        known = np.unique(dataset.classes.values)
        if len(known) < 2:
            raise DataError(
                f"{dataset.where}: has a single class, so a batch of one pair per class is one "
                "pair, which has nothing to differ from. Set sampling.kind=pairs."
            )
    return dataset


def _require_fitting_vectors(recipe: Recipe, dataset: CaptionDataset) -> None:
    """Refuse vectors that the backbones do not take, and pixels where they take vectors."""
    sides = (("image", recipe.image, dataset.image_vectors), ("caption", recipe.caption, dataset.caption_vectors))
    for side, chosen, stored in sides:
        wanted = chosen.params.get("features") if chosen.kind == "precomputed" else None
        given = None if stored is None else stored.width
        if wanted != given:
            has = f"vectors of {given} numbers" if given else "no vectors"
            remedy = (
                f"Set {side}.kind=precomputed and {side}.features={given}."
                if given
                else f'Use data of kind "precomputed", or another {side} backbone.'
            )
            raise ConfigError(
                f"{dataset.where}: has {has} for its {side}s, and the {side} backbone is "
                f"{chosen.kind}{f' of {wanted}' if wanted else ''}. {remedy}"
            )


def _refuse_long_warmups(run: Run) -> None:
    for number, phase in enumerate(run.recipe.phases):
        steps = phase.epochs * len(run.sampler)
        if phase.warmup_steps > steps:
            raise ConfigError(
                f"phases.{number}.warmup_steps: must be at most the phase's {steps:,} steps "
                f"({phase.epochs:,} epochs of {len(run.sampler):,} batches), got "
                f"{phase.warmup_steps:,}. Set it to {steps // 2}, or more epochs."
            )


def _note_small_batches(run: Run, reporter: Reporter) -> None:
    wanted, images = run.recipe.sampling.batch_size, len(run.train_set.images)
    if run.recipe.sampling.kind == "pairs" and wanted > images:
        reporter.note(f"sampling.batch_size={wanted} is cut to {images}, the images of {run.train_set.where}")


def _validation_set(whole: CaptionDataset, recipe: Recipe) -> CaptionDataset:
    """The split to validate on; when it has too many captions, a seeded choice of images."""
    if not len(whole.images) or not len(whole.captions):
        raise DataError(
            f"{whole.where}: has no usable images or captions to validate on. Set another validation.split."
        )
    limit = recipe.validation.max_captions
    per_image = len(whole.captions) / len(whole.images)
    count = max(1, int(limit / per_image))
    if count >= len(whole.images):
        return whole
    order = numpy_stream(recipe.seed, "validation").permutation(len(whole.images))
    return whole.subset(np.sort(order[:count]))


def _vectors(recipe: Recipe, vocab: Vocab) -> tuple[Float[Tensor, "v e"], Coverage | None]:
    generator = torch_stream(recipe.seed, "init", "vectors")
    source = recipe.words.vectors
    if source is None:
        return torch.randn(len(vocab), recipe.words.dim, generator=generator), None
    vectors = WordVectors.from_package() if source == "package" else WordVectors.from_text(Path(source), vocab)
    return vectors.matrix(vocab, generator)


def _probe(recipe: Recipe, model: Model, train_set: CaptionDataset) -> nn.Linear | None:
    if all(phase.task == "match" for phase in recipe.phases):
        return None
    if train_set.labels is None:
        raise ConfigError(
            f'{train_set.where}: has no labels, which a phase with task="labels" needs. Leave that '
            "phase out, or use a backbone with weights."
        )
    generator = torch_stream(recipe.seed, "init", "probe")
    return linear(model.images.network.features, len(train_set.labels.names), generator)


def _features(run: Run, number: int, transform: ImageTransform, reporter: Reporter) -> Sequence[FeatureRows]:
    """The output of the backbone's frozen part for every view; nothing where it must run again.

    A frozen backbone is cached as a whole; one whose last blocks learn, up to those.
    """
    phase = run.recipe.phases[number]
    if not _is_cached(run, phase):
        return ()
    views = 1 if transform.deterministic else run.recipe.augment.views
    if views is None:
        reporter.note(
            "images are augmented, so the frozen backbone runs at every step; augment.views=4 "
            "caches its features of four draws of every image"
        )
        return ()
    # The inputs of later phases are cached in the same pass: the backbone runs once for all.
    tops = [*_tops_ahead(run, number), _top(phase)]
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


def _is_cached(run: Run, phase: Phase) -> bool:
    """Whether the phase starts from the cached output of the backbone, or of a part of it."""
    network = run.model.images.network
    partly = network.chained and 0 < _top(phase) < len(network.blocks())
    return phase.task == "match" and (phase.backbone == "frozen" or partly)


def _top(phase: Phase) -> int:
    """The number of last blocks that learn, in a phase that freezes the others."""
    return phase.backbone if isinstance(phase.backbone, int) else 0


def _tops_ahead(run: Run, number: int) -> list[int]:
    """The blocks that learn in the phases after this one, while those below are still as now."""
    tops: list[int] = []
    lowest = _top(run.recipe.phases[number])
    for later in run.recipe.phases[number + 1 :]:
        if not _is_cached(run, later):
            break
        if _top(later) > lowest:
            lowest = _top(later)
            tops.insert(0, lowest)
    return tops
