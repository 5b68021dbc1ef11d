"""Train: from a recipe to a run, resumable to the bit.

Every random draw is a function of the seed and of where it is made (epoch, step, place), so the
state of a run is its weights, its optimiser and its position; nothing else has to be remembered.
A step is one batch; a checkpoint is written after every epoch, and when the run is interrupted.
"""

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pcme import checkpoint, data
from pcme.data.batches import Batch, Loader
from pcme.data.dataset import CaptionDataset, Dataset, Remembered
from pcme.data.features import FeatureCache, digest_of_module
from pcme.data.problems import Problems
from pcme.data.samplers import OnePerClass, Sampler, ShuffledPairs
from pcme.data.streams import stream as numpy_stream
from pcme.data.text import Vocab
from pcme.data.transforms import ImageTransform, normalise
from pcme.data.vectors import Coverage, WordVectors
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError, DataError
from pcme.evaluation import embed, retrieval
from pcme.model import Model
from pcme.nn.heads import linear
from pcme.optim import AdamP, ExponentialAverage, clip_gradients, cosine_with_warmup
from pcme.phases import set_mode, trained_groups
from pcme.recipe import Phase, Recipe
from pcme.sampling import stream

__all__ = ["Reporter", "Run", "cache_folder", "train"]


class Reporter:
    """What a run says while it goes on: nothing. The command line has one that draws."""

    def begin(self, run: "Run") -> None:
        """Training starts or goes on."""

    def step(self, run: "Run", values: Mapping[str, float]) -> None:
        """A step is done."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def validated(self, run: "Run", figures: Mapping[str, Mapping[str, float]]) -> None:
        """A validation is done."""


@dataclass
class Position:
    """Where a run stands: the next step to make."""

    phase: int = 0
    epoch: int = 0
    step: int = 0
    total: int = 0
    best: float = -math.inf
    logged: int = 0


@dataclass
class Run:
    """A training run: what it trains, on what, and how far it is."""

    recipe: Recipe
    folder: Path
    model: Model
    train_set: CaptionDataset
    val_set: CaptionDataset
    problems: Problems
    workers: int = 2
    position: Position = field(default_factory=Position)
    average: ExponentialAverage | None = None
    probe: nn.Linear | None = None
    """Names the labels from the backbone's features, for phases whose task that is."""

    @property
    def total_steps(self) -> int:
        """All steps of all phases."""
        return len(self.sampler) * sum(phase.epochs for phase in self.recipe.phases)

    @property
    def sampler(self) -> Sampler:
        """Which pairs meet."""
        sampling, seed = self.recipe.sampling, self.recipe.seed
        if sampling.kind == "pairs":
            size = min(sampling.batch_size, len(self.train_set.images))
            return ShuffledPairs(
                self.train_set, size, seed=seed, afresh=sampling.afresh, drop_last=True
            )
        return OnePerClass(self.train_set, seed=seed, afresh=sampling.afresh)


def train(
    recipe: Recipe,
    out: Path,
    *,
    data_root: Path | None = None,
    resume: bool = False,
    workers: int = 2,
    strict: bool = False,
    reporter: Reporter | None = None,
) -> Model:
    """The trained model; `out` holds the run: recipe, weights, vocabulary, metrics, checkpoints."""
    said = reporter or Reporter()
    run = _prepared(recipe, Path(out), data_root, workers, strict, said)
    found = _resumed(run, resume)
    said.begin(run)
    for number in range(run.position.phase, len(recipe.phases)):
        _run_phase(run, number, found, said)
        found = None
    return run.model


def cache_folder() -> Path:
    """Where features are kept for all runs: $PCME_CACHE, or pcme/ in the user's cache folder."""
    given = os.environ.get("PCME_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(base) / "pcme"


def _prepared(
    recipe: Recipe, out: Path, data_root: Path | None, workers: int, strict: bool, said: Reporter
) -> Run:
    dataset, problems = _dataset(recipe, data_root), Problems(strict=strict)
    loaded = dataset.load(recipe.train_split, problems)
    train_set = replace(loaded, images=Remembered(loaded.images))
    val_set = _validation_set(dataset, recipe, problems)
    vocab = Vocab.build(train_set.captions, recipe.words.min_count)
    vectors, coverage = _vectors(recipe, vocab)
    if coverage is not None:
        said.note(str(coverage))
    model = Model(recipe, vocab, vectors)
    out.mkdir(parents=True, exist_ok=True)
    average = ExponentialAverage(model, recipe.average) if recipe.average else None
    probe = _probe(recipe, model, train_set)
    return Run(
        recipe, out, model, train_set, val_set, problems, workers, average=average, probe=probe
    )


def _probe(recipe: Recipe, model: Model, train_set: CaptionDataset) -> nn.Linear | None:
    if all(phase.task == "match" for phase in recipe.phases):
        return None
    if train_set.labels is None:
        raise ConfigError(
            f'{train_set.where} has no labels, which a phase with task="labels" needs - leave that '
            "phase out, or use a backbone with weights"
        )
    generator = stream(recipe.seed, "init", "probe")
    return linear(model.images.network.features, len(train_set.labels.names), generator)


def _dataset(recipe: Recipe, data_root: Path | None) -> Dataset:
    params = recipe.data.params
    if data.registry.get(recipe.data.kind).layout and data_root is not None:
        params["root"] = data_root
    elif data.registry.get(recipe.data.kind).layout and "root" not in params:
        return data.find(recipe.data.kind)
    return data.create(recipe.data.kind, **params)


def _validation_set(dataset: Dataset, recipe: Recipe, problems: Problems) -> CaptionDataset:
    """The validation split; when it has too many captions, the images of a seeded choice."""
    whole = dataset.load(recipe.validation.split, problems)
    limit = recipe.validation.max_captions
    per_image = len(whole.captions) / len(whole.images)
    count = max(1, int(limit / per_image))
    if count >= len(whole.images):
        return whole
    order = numpy_stream(recipe.seed, "validation").permutation(len(whole.images))
    return whole.subset(np.sort(order[:count]))


def _vectors(recipe: Recipe, vocab: Vocab) -> tuple[Tensor, Coverage | None]:
    generator = stream(recipe.seed, "init", "vectors")
    source = recipe.words.vectors
    if source is None:
        return torch.randn(len(vocab), recipe.words.dim, generator=generator), None
    vectors = (
        WordVectors.from_package()
        if source == "package"
        else WordVectors.from_text(Path(source), vocab)
    )
    return vectors.matrix(vocab, generator)


def _run_phase(run: Run, number: int, found: checkpoint.Checkpoint | None, said: Reporter) -> None:
    phase = run.recipe.phases[number]
    groups = trained_groups(run.model, run.probe, phase, words=run.recipe.words.train)
    optimiser = AdamP(groups, lr=phase.learning_rate)
    if found is not None:
        _restore_optimiser(optimiser, found)
    loader = _loader(run, phase, said)
    total = phase.epochs * len(loader)
    for epoch in range(run.position.epoch, phase.epochs):
        run.position.epoch = epoch
        try:
            _run_epoch(run, loader, phase, optimiser, total, epoch, said)
        except KeyboardInterrupt:
            _save(run, optimiser)
            said.note(f"interrupted at step {run.position.total}; --resume goes on from there")
            raise
        run.position.epoch, run.position.step = epoch + 1, 0
        last = epoch + 1 == phase.epochs
        due = last or (epoch + 1) % run.recipe.validation.every_epochs == 0
        if due and phase.task == "match":
            _validate(run, said)
        if last:
            run.position.phase, run.position.epoch = number + 1, 0
        _save(run, optimiser)


def _run_epoch(
    run: Run,
    loader: Loader,
    phase: Phase,
    optimiser: AdamP,
    total: int,
    epoch: int,
    said: Reporter,
) -> None:
    offset = sum(inner.epochs for inner in run.recipe.phases[: run.position.phase])
    batches = loader.epoch(offset + epoch, start=run.position.step)
    for batch in batches:
        done = epoch * len(loader) + run.position.step
        factor = cosine_with_warmup(done, total=total, warmup=phase.warmup_steps)
        values = _step(run, batch, phase, optimiser, factor)
        run.position.step += 1
        run.position.total += 1
        _log(run, values)
        said.step(run, values)


def _step(
    run: Run, batch: Batch, phase: Phase, optimiser: AdamP, factor: float
) -> dict[str, float]:
    """One batch: forward, backward, clip, update."""
    set_mode(run.model, phase)
    if phase.task == "labels":
        loss, values = _label_loss(run, batch)
    else:
        loss, values = _match_loss(run, batch)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    norm = clip_gradients([p for g in optimiser.param_groups for p in g["params"]], phase.clip)
    if torch.isfinite(norm):
        for group in optimiser.param_groups:
            group["lr"] = phase.learning_rate * factor * group["factor"]
        optimiser.step()
        if run.average is not None:
            run.average.update(run.model)
    rate = phase.learning_rate * factor
    return {"loss": loss.item(), **values, "gradient": norm.item(), "learning_rate": rate}


def _label_loss(run: Run, batch: Batch) -> tuple[Tensor, dict[str, float]]:
    """How badly the backbone's strongest features name the labels, summed over labels."""
    assert run.probe is not None, "made with the run"
    assert run.train_set.labels is not None, "checked with it"
    network = run.model.images.network
    sites = network(normalise(batch.images.to(run.model.device), network.mean, network.std))
    truth = torch.from_numpy(run.train_set.labels.values[batch.image_index]).to(sites)
    each = F.binary_cross_entropy_with_logits(run.probe(sites.amax(1)), truth)
    loss = truth.shape[1] * each
    if not torch.isfinite(loss):
        raise _not_finite(run, batch, "labels")
    return loss, {}


def _match_loss(run: Run, batch: Batch) -> tuple[Tensor, dict[str, float]]:
    """The objective's loss, and what is worth watching."""
    model, position = run.model, run.position
    images = model.embed_images(batch.images)
    captions = model.embed_tokens(batch.tokens)
    generator = stream(run.recipe.seed, "objective", position.total)
    try:
        terms = model.objective(images, captions, batch.matches.to(model.device), generator)
    except DataError as error:  # the embeddings themselves are not finite
        raise _not_finite(run, batch, str(error)) from error
    loss = terms.total
    if not torch.isfinite(loss):
        named = ", ".join(f"{name} {value.item():g}" for name, value in terms.values.items())
        raise _not_finite(run, batch, named)
    return loss, {
        **{name: value.item() for name, value in terms.values.items()},
        **model.objective.report(),
        **_spread("image", images),
        **_spread("caption", captions),
    }


def _spread(side: str, items: Embedding) -> dict[str, float]:
    """E[log σ], the paper's measure of how wide items are."""
    if not isinstance(items, Gaussian):
        return {}
    return {f"{side}_log_sigma": float(items.log_sigma.detach().mean())}


def _not_finite(run: Run, batch: Batch, found: str) -> DataError:
    newest = checkpoint.newest(run.folder / "checkpoints")
    last = f"the last good state is {newest.folder}" if newest else "there is no checkpoint yet"
    return DataError(
        f"the loss is not finite at step {run.position.total} ({found}) - images "
        f"{batch.image_index[:8].tolist()} ..., captions {batch.caption_index[:8].tolist()} ... - "
        f"{last}; lower the learning rate, or its sigma_factor"
    )


def _loader(run: Run, phase: Phase, said: Reporter) -> Loader:
    recipe = run.recipe
    augment = recipe.augment
    transform = ImageTransform(
        size=augment.size,
        resize=None if augment.crop == "none" else round(augment.size * 256 / 224),
        crop=augment.crop,
        flip=augment.flip,
        cutout=augment.cutout,
        erasing=augment.erasing,
    )
    features = None
    if phase.backbone == "frozen" and phase.task == "match":
        features = _features(run, run.train_set, transform, said)
    return Loader(
        run.train_set,
        run.sampler,
        run.model.vocab,
        transform,
        seed=recipe.seed,
        word_drop=augment.word_drop,
        word_erasing=augment.word_erasing,
        workers=run.workers,
        features=features,
        problems=run.problems,
    )


def _features(
    run: Run, dataset: CaptionDataset, transform: ImageTransform, said: Reporter
) -> FeatureCache | None:
    """The frozen backbone's features, unless the augmentation changes the pixels every time."""
    if not transform.deterministic:
        said.note("images are augmented, so the frozen backbone runs at every step (no cache)")
        return None
    network = run.model.images.network
    network.eval()
    return FeatureCache.open_or_compute(
        cache_folder() / "features",
        dataset,
        transform,
        lambda pixels: network(normalise(pixels, network.mean, network.std)),
        backbone=digest_of_module(network),
        workers=run.workers,
        problems=run.problems,
    )


def _validate(run: Run, said: Reporter) -> None:
    """Figures on the validation split; the best weights so far go to the run's folder."""
    with run.average.apply_to(run.model) if run.average is not None else nullcontext():
        embedded = embed(run.model, run.val_set, run.problems, workers=run.workers)
        score = run.model.score()
        figures = retrieval(score, embedded.images, embedded.captions, embedded.dataset.matches())
        mean = (figures["i2t"]["r_precision"] + figures["t2i"]["r_precision"]) / 2
        if mean > run.position.best:
            run.position.best = mean
            run.model.save(run.folder)
        run.model.save(run.folder / "last")
    flat = {f"val/{way}/{name}": v for way, part in figures.items() for name, v in part.items()}
    _log(run, flat)
    said.validated(run, figures)


def _log(run: Run, values: Mapping[str, float]) -> None:
    record = {"step": run.position.total, "time": round(time.time(), 3), **values}
    with open(run.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
        run.position.logged = file.tell()


def _save(run: Run, optimiser: AdamP) -> None:
    tensors, groups = checkpoint.flatten_optimizer(optimiser.state_dict())
    state = {"position": vars(run.position), "recipe": run.recipe.record(), "optimiser": groups}
    parts: dict[str, Mapping[str, Tensor]] = {
        "model": run.model.state_dict(),
        "optimiser": tensors,
    }
    if run.average is not None:
        parts["average"] = run.average.state()
    if run.probe is not None:
        parts["probe"] = run.probe.state_dict()
    checkpoint.save(run.folder / "checkpoints", run.position.total, parts, {"state": state})


def _resumed(run: Run, resume: bool) -> checkpoint.Checkpoint | None:
    """The state of the newest checkpoint put in place; None to start afresh."""
    folder = run.folder / "checkpoints"
    found = checkpoint.newest(folder)
    if not resume:
        if found is not None:
            raise ConfigError(
                f"{run.folder} holds a run at step {found.step} - give --resume to go on with it, "
                "or another --out"
            )
        (run.folder / "metrics.jsonl").unlink(missing_ok=True)
        return None
    checkpoint.clean(folder)
    if found is None:
        (run.folder / "metrics.jsonl").unlink(missing_ok=True)
        return None
    state = found.record("state")
    if state["recipe"] != run.recipe.record():
        raise ConfigError(
            f"{run.folder} was begun with another recipe - use that one, or new --out"
        )
    run.model.load_state_dict(found.tensors("model"))
    run.position = Position(**state["position"])
    if run.average is not None:
        run.average.load(found.tensors("average"))
    if run.probe is not None:
        run.probe.load_state_dict(found.tensors("probe"))
    _cut(run.folder / "metrics.jsonl", run.position.logged)
    return found if run.position.epoch or run.position.step else None


def _restore_optimiser(optimiser: AdamP, found: checkpoint.Checkpoint) -> None:
    record = found.record("state")["optimiser"]
    optimiser.load_state_dict(checkpoint.unflatten_optimizer(found.tensors("optimiser"), record))


def _cut(path: Path, size: int) -> None:
    """Forget what was logged after the checkpoint: it will be logged again."""
    if path.is_file() and path.stat().st_size > size:
        with open(path, "r+b") as file:
            file.truncate(size)
