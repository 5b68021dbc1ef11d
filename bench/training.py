"""A training step: the time of its parts, its time beside a bare backbone, and its memory."""

import resource
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bench.data import photographs
from bench.measure import Row, best, faster, no_larger, within
from pcme import recipes
from pcme.core.random import torch_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.transforms import ImageTransform, normalise
from pcme.data.loading.batches import Batch, Loader
from pcme.data.loading.samplers import ShuffledPairs
from pcme.data.sources import Files
from pcme.data.text.tokens import Vocab
from pcme.embedding import Gaussian
from pcme.model import Model
from pcme.nn import images as image_networks
from pcme.nn.backbone import Build
from pcme.nn.recurrent import StackedBiGRU
from pcme.recipes.schema import Phase, Recipe
from pcme.training import Reporter, Run, train
from pcme.training.optim import AdamP, clip_gradients
from pcme.training.phases import set_mode, trained_groups

BATCH, DIM, SITES, WIDTH = 128, 512, 49, 1280
WORDS = "a small brown bird with long black wings and the short white bill sits near its nest on"


def bench_step() -> list[Row]:
    """One step on cached features like those of `cub-effnet`, with the paper's J = 7 and D = 512."""
    model, loader, phase = _heads_on_features()
    batch = next(loader.epoch(0))
    groups = trained_groups(model, None, phase, words=True)
    optimiser = AdamP(groups, lr=1e-3)
    set_mode(model, phase)
    embedded = _leaves(model, batch)

    def data() -> object:
        return next(loader.epoch(0))

    def encoders() -> None:
        images, captions = _encoded(model, batch)
        total = sum(part.sum() for g in (images, captions) for part in (g.mean, g.log_sigma))
        assert isinstance(total, Tensor)
        total.backward()

    def loss() -> None:
        model.objective(*embedded, batch.matches, torch_stream(0, "bench")).total.backward()

    def update() -> None:
        clip_gradients([p for group in groups for p in group["params"]], 2.0)
        optimiser.step()

    def whole() -> None:
        data()
        images, captions = _encoded(model, batch)
        optimiser.zero_grad(set_to_none=True)
        model.objective(images, captions, batch.matches, torch_stream(0, "bench")).total.backward()
        update()

    whole()
    times = dict(zip(("data", "encoders", "loss", "update", "step"), best(
        data, encoders, loss, update, whole, repeats=5), strict=True))  # fmt: skip
    shares = ", ".join(f"{name} {100 * t / times['step']:.0f} %" for name, t in times.items())
    note = f"B = {BATCH}, J = 7, D = {DIM}, {SITES} x {WIDTH} features; {shares}"
    return [within("training: the loss, against the whole step", times["loss"], times["step"], 0.25, note)]


def bench_gru() -> list[Row]:
    """The two GRUs of the caption side, forward and backward, against two packed `nn.GRU`s."""
    return [
        _gru_row("as the paper's", BATCH, inputs=300, hidden=DIM // 2),
        _gru_row("as cub-effnet's", 73, inputs=50, hidden=128),
    ]


def _gru_row(which: str, batch: int, *, inputs: int, hidden: int) -> Row:
    generator = torch_stream(0, "bench")
    ours = StackedBiGRU(inputs, hidden, stacks=2, generator=generator)
    theirs = [nn.GRU(inputs, hidden, batch_first=True, bidirectional=True) for _ in range(2)]
    lengths = torch.randint(8, 18, (batch,), generator=generator)
    words = torch.randn(batch, 18, inputs, generator=generator, requires_grad=True)

    def packed() -> None:
        sequences = nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        torch.stack([gru(sequences)[1].sum() for gru in theirs]).sum().backward()

    our_time, packed_time = best(lambda: ours(words, lengths).sum().backward(), packed, repeats=10)
    note = f"B = {batch}, 8 to 17 words, {inputs} to 2 x {hidden}, forward and backward"
    return faster(f"captions: both GRUs, {which}, against packed nn.GRU", our_time, packed_time, 1.7, note)


def bench_overhead() -> list[Row]:
    """`pcme.train` of all weights, against the backbone's own forward and backward pass."""
    size, batch = 224, 16
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "data").mkdir()
        photos = photographs(root / "data", 48, (320, 240))
        lines = [f"{photo.name},{WORDS},{'train' if i % 6 else 'val'}" for i, photo in enumerate(photos)]
        (root / "data" / "captions.csv").write_text("\n".join(["image,caption,split", *lines]) + "\n")
        recipe = recipes.get("aviary-tiny").changed([
            'data={"kind": "table"}', 'image={"kind": "resnet", "depth": 50}', f"dim={DIM}",
            f"augment.size={size}", "augment.crop=centre", "sampling.afresh=false",
            f"sampling.batch_size={batch}",
            'phases=[{"epochs": 2, "learning_rate": 1e-4, "backbone": "all"}]',
        ])  # fmt: skip
        timer = StepTimes()
        train(recipe, root / "run", data_root=root / "data", reporter=timer)
    network = image_networks.create("resnet", depth=50).build(Build(torch_stream(0, "bench"))).train()
    pixels = torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8)

    def bare() -> None:
        network(normalise(pixels, network.mean, network.std)).sum().backward()

    (backbone_time,) = best(bare, repeats=4, seconds=60)
    step_time = float(np.min(timer.seconds[1:]))
    note = f"ResNet-50, {batch} x {size} px, heads, loss, AdamP, batches and log included"
    return [within("training: a step, against the bare backbone", step_time, backbone_time, 1.10, note)]


def bench_growth() -> list[Row]:
    """Memory over a thousand steps, and the time of a step on a dataset ten times as large."""
    record = recipes.get("aviary-tiny").changed(["data.train_species=700", "phases.0.epochs=40"]).record()
    small = Recipe.model_validate({**record, "phases": record["phases"][:1]})
    small_timer, large_timer = StepTimes(), StepTimes()
    with tempfile.TemporaryDirectory() as folder:
        train(small, Path(folder) / "small", reporter=small_timer)
    early, late = (float(np.median(small_timer.memory[at : at + 50])) for at in (100, 1000))
    large = small.changed(["data.train_species=7000", "phases.0.epochs=4"])
    with tempfile.TemporaryDirectory() as folder:
        train(large, Path(folder) / "large", reporter=large_timer)
    note = f"{len(small_timer.seconds):,} steps"
    medians = [float(np.median(timer.seconds[50:])) for timer in (large_timer, small_timer)]
    return [
        no_larger("training: memory at step 1,000, against step 100", late, early, 1.02, note),
        within("training: a step with ten times the data", *medians, 1.10, "aviary-tiny"),
    ]


class StepTimes(Reporter):
    """Records the time between steps, and the memory after each step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.memory: list[int] = []
        self._last: float | None = None

    def step(self, run: Run, values: Mapping[str, float]) -> None:
        """Record a finished step."""
        now = time.perf_counter()
        if self._last is not None:
            self.seconds.append(now - self._last)
        self._last = now
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.memory.append(pages * resource.getpagesize())


class _Features:
    """Features of all images in one array, like those of the cache."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.rows = torch.rand(count, SITES, WIDTH, generator=generator).half()

    def row(self, index: int) -> Tensor:
        return self.rows[index].float()


def _heads_on_features() -> tuple[Model, Loader, Phase]:
    count = 2 * BATCH
    rng = np.random.default_rng(0)
    captions = [" ".join(rng.choice(WORDS.split(), rng.integers(8, 18))) for _ in range(count)]
    images = Files(Path("."), [f"{i}.jpg" for i in range(count)])  # never read: the loader gets features
    dataset = CaptionDataset.by_image("bench", "train", images, captions, np.arange(count))
    recipe = recipes.get("aviary-tiny").changed([
        f'image={{"kind": "precomputed", "features": {WIDTH}}}', f"dim={DIM}", "words.dim=300",
        'method={"kind": "pcme", "likelihood": "sampled", "samples": 7}',
    ])  # fmt: skip
    vocab = Vocab.build(captions)
    vectors = torch.randn(len(vocab), 300, generator=torch_stream(0, "bench"))
    loader = Loader(
        dataset,
        ShuffledPairs(dataset, BATCH, seed=0),
        vocab,
        ImageTransform.evaluation(),
        seed=0,
        word_drop=0.1,
        features=[_Features(count)],
    )
    return Model(recipe, vocab, vectors), loader, recipe.phases[0]


def _encoded(model: Model, batch: Batch) -> tuple[Gaussian, Gaussian]:
    images, captions = model.embed_images(batch.images), model.embed_tokens(batch.tokens)
    assert isinstance(images, Gaussian)
    assert isinstance(captions, Gaussian)
    return images, captions


def _leaves(model: Model, batch: Batch) -> list[Gaussian]:
    """The batch's embeddings, detached from the encoders."""
    return [
        Gaussian(g.mean.detach().requires_grad_(), g.log_sigma.detach().requires_grad_())
        for g in _encoded(model, batch)
    ]
