import math
import os
import signal
import subprocess
import sys
import time
from functools import partialmethod
from itertools import count

import pytest
import torch

import pcme
from pcme.errors import ConfigError
from pcme.recipes.schema import from_record
from pcme.training import Reporter, train
from pcme.training.checkpoint import newest
from pcme.training.precision import Precision
from pcme.training.prepare import prepare_run
from tests.helpers import unless_annotations_are_enforced
from tests.training.trained import SHORT, TINY, Notes, logged, losses, same, same_run, train_cut, weights


@pytest.mark.parametrize("after", [(1,), (6,), (8,), (2, 3, 4)])
def test_a_run_that_was_cut_short_ends_as_one_that_was_not(sigma_run, tmp_path, after):
    for steps in after:
        train_cut(TINY, tmp_path, steps, resume=True)
    train(TINY, tmp_path, resume=True)
    assert same_run(tmp_path, sigma_run)


def interrupting(monkeypatch, at, times=1):
    """Ctrl-C in the middle of a step: after the gradients, before the weights move."""
    real, calls = pcme.training.steps.clip_gradients, count()

    def clip(*args):
        for _ in range(times if next(calls) == at else 0):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        return real(*args)

    monkeypatch.setattr("pcme.training.steps.clip_gradients", clip)


@pytest.fixture
def as_in_a_terminal():
    """A job in the background of a shell ignores Ctrl-C, and so would these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize(("at", "times", "saved"), [(4, 1, 5), (7, 1, 8), (4, 2, 3), (1, 2, None)])
def test_ctrl_c_in_the_middle_of_a_step(sigma_run, tmp_path, monkeypatch, at, times, saved):
    """The first waits for the end of the step; a second one does not, and the step is lost."""
    notes = Notes()
    with monkeypatch.context() as patch:
        interrupting(patch, at, times)
        with pytest.raises(KeyboardInterrupt):
            train(TINY, tmp_path, reporter=notes)
    found = newest(tmp_path / "checkpoints")
    assert (found and found.step) == saved
    assert ("is not saved" in notes.texts[-1]) == (times == 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train(TINY, tmp_path, resume=True)
    assert same_run(tmp_path, sigma_run)


@pytest.mark.usefixtures("as_in_a_terminal")
def test_ctrl_c_that_others_handle_is_left_to_them(sigma_run, tmp_path, monkeypatch):
    seen = []
    signal.signal(signal.SIGINT, lambda *args: seen.append(args))
    interrupting(monkeypatch, 4)
    train(TINY, tmp_path)
    assert len(seen) == 1
    assert same_run(tmp_path, sigma_run)


@pytest.mark.slow
def test_sigkill(sigma_run, tmp_path):
    """Many more moments, without the command line, are in test_killed.py."""
    command = [sys.executable, "-m", "pcme", "train", "aviary-tiny", "--out", str(tmp_path)]
    # Sums are rounded in another order with another number of threads.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as child:
        deadline = time.monotonic() + 60
        while not (tmp_path / "metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        child.kill()
    train(TINY, tmp_path, resume=True)
    assert same_run(tmp_path, sigma_run)


def test_another_seed_is_another_run(sigma_run, tmp_path):
    train(TINY.changed(["seed=1"]), tmp_path)
    assert not same(weights(tmp_path / "last"), weights(sigma_run / "last"))


class FirstPhase(Reporter):
    def begin(self, run):
        network = run.model.images.network
        self.before = {k: v.clone() for k, v in network.state_dict().items()}

    def step(self, run, values):
        moved = not same(self.before, run.model.images.network.state_dict())  # BatchNorm statistics included
        assert moved == (run.position.phase == 1)


def test_frozen_means_frozen_and_then_it_moves(tmp_path):
    train(TINY, tmp_path, reporter=FirstPhase())


def test_the_run_is_a_model_that_is_loaded_and_saved_to_the_bit(sigma_run, tmp_path):
    model = pcme.load(sigma_run)
    model.save(tmp_path)
    assert same(weights(tmp_path), weights(sigma_run))
    again = pcme.load(tmp_path)
    images = [torch.full((3, 16, 16), value, dtype=torch.uint8) for value in (0, 200)]
    assert torch.equal(model.encode_images(images).mean, again.encode_images(images).mean)
    left, right = (m.encode_captions(["a red bird", "nothing known xyzzy", ""]) for m in (model, again))
    assert torch.equal(left.mean, right.mean)
    assert torch.equal(left.log_sigma, right.log_sigma)


def test_a_backbone_learns_the_labels_and_a_cut_run_the_same(tmp_path):
    labels = {"epochs": 2, "learning_rate": 1e-2, "task": "labels"}
    recipe = from_record({**TINY.record(), "phases": [labels, {"epochs": 1, "learning_rate": 1e-3}]})
    train_cut(recipe, tmp_path, 4)
    train(recipe, tmp_path, resume=True)
    train(recipe, tmp_path / "straight")
    assert same_run(tmp_path, tmp_path / "straight")
    assert losses(tmp_path)[5] < losses(tmp_path)[0]


@pytest.mark.parametrize(
    "switch", ["average=0.9", "sampling.kind=one-per-class", "sampling.afresh=false", "words.train=false"]
)
def test_every_switch_trains(tmp_path, switch):
    train(SHORT.changed([switch]), tmp_path)
    assert (tmp_path / "weights.safetensors").is_file()


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_16_bits_train(tmp_path, precision):
    recipe = TINY.changed([f"precision={precision}", "phases.0.backbone=all", "phases.1.epochs=1"])
    train_cut(recipe, tmp_path / "cut", 5)
    train(recipe, tmp_path / "cut", resume=True)
    model = train(recipe, tmp_path / "straight")
    assert same_run(tmp_path / "cut", tmp_path / "straight")
    assert all(p.dtype == torch.float32 for p in model.parameters())
    values = losses(tmp_path / "cut")
    assert values[5] < 0.8 * values[0]  # two epochs
    train(recipe.changed(["precision=float32"]), tmp_path / "wide")
    assert not same(weights(tmp_path / "wide"), weights(tmp_path / "straight"))


def test_float16_needs_a_device_whose_gradients_torch_scales():
    with pytest.raises(ConfigError, match="float16 needs one of cuda, cpu, got mps"):
        Precision("float16", torch.device("mps"))


def test_float16_scales_gradients_and_halves_the_scale_on_overflow():
    precision = Precision("float16", torch.device("cpu"))
    weight = torch.nn.Parameter(torch.tensor([2.0]))
    optimiser = torch.optim.SGD([weight], lr=0.1)
    precision.backward((3 * weight).sum(), optimiser)
    precision.scaler.update()
    assert weight.grad.tolist() == [3.0]
    before = precision.scaler.get_scale()
    optimiser.zero_grad()
    precision.backward((weight * math.inf).sum(), optimiser)
    precision.scaler.update()
    assert precision.scaler.get_scale() == before / 2


@unless_annotations_are_enforced  # dynamo traces beartype, too
def test_a_compiled_backbone_gives_the_same_run(tmp_path, monkeypatch):
    """By dynamo's own backend, without a compiler: that comes with torch and takes minutes."""
    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(torch.nn.Module.compile, backend="eager"))
    recipe = SHORT.changed(["phases.0.backbone=all"])
    train(recipe, tmp_path / "plain")
    train(recipe, tmp_path / "compiled", compiled=True)
    left, right = losses(tmp_path / "plain"), losses(tmp_path / "compiled")
    assert right == pytest.approx(left, rel=1e-4)
    assert weights(tmp_path / "plain").keys() == weights(tmp_path / "compiled").keys()


PATIENT = TINY.changed(["validation.patience=2", "phases.0.epochs=9", "phases.1.epochs=9"])


@pytest.fixture
def validations(monkeypatch):
    """Counts validations, of which none is better than the one at step 6."""
    real, counter = pcme.training.loop.retrieval, {"made": 0}

    def evaluate(*args):
        figures = real(*args)
        counter["made"] += 1
        for part in figures.values():
            part["r_precision"] = 0.5 if counter["made"] == 2 else 0.4
        return figures

    monkeypatch.setattr("pcme.training.loop.retrieval", evaluate)
    return counter


def test_a_phase_ends_when_patience_is_over_also_after_a_cut(tmp_path, validations):
    notes = Notes()
    straight = tmp_path / "straight"
    train(PATIENT, straight, reporter=notes)
    validated = [line["step"] for line in logged(straight) if "val/t2i/recall@1" in line]
    assert validated == [3, 6, 9, 12, 15, 18]  # best at 6; two more; then two of the next phase
    assert notes.texts[-2].startswith("phase 0 ends at step 12: 2 validations")
    assert notes.texts[-1].startswith("phase 1 ends at step 18: 2 validations")
    before = weights(straight / "last")
    train(PATIENT, straight, resume=True)  # nothing left to do
    assert logged(straight)[-1]["step"] == 18
    assert same(weights(straight / "last"), before)
    for after in (8, 14):
        run = tmp_path / str(after)
        validations["made"] = 0
        train_cut(PATIENT, run, after)
        validations["made"] = newest(run / "checkpoints").step // 3
        train(PATIENT, run, resume=True)
        assert same_run(run, straight)


def test_a_share_of_the_training_images_can_be_held_back_to_validate_on(tmp_path):
    held_back = SHORT.changed(["validation.share=0.25", "validation.split=nowhere"])
    whole, part = (
        prepare_run(recipe, tmp_path, None, workers=0, strict=False, reporter=Reporter())
        for recipe in (SHORT, held_back)
    )
    images = len(whole.train_set.images)
    assert len(part.val_set.images) == round(images / 4) == images - len(part.train_set.images)
    assert part.val_set.split == "val"
