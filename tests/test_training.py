"""Training: to the bit the same after any interruption; frozen is frozen; faults are named."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

import pcme
from pcme import ConfigError, DataError, recipes
from pcme.checkpoint import newest
from pcme.recipe import from_record
from pcme.training import Reporter, train

TINY = recipes.get("aviary-tiny")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """The networks here are so small that threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Interrupt(Reporter):
    """Stops the run after so many steps, as a crash would."""

    def __init__(self, after, error=RuntimeError):
        self.left, self.error = after, error

    def step(self, run, values):
        self.left -= 1
        if self.left == 0:
            raise self.error("stopped by the test")


def weights(folder):
    return load_file(folder / "weights.safetensors")


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def logged(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "time"} for line in lines]


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    train(TINY, folder)
    return folder


@pytest.mark.parametrize("after", [1, 5, 6, 8])
def test_a_run_that_was_cut_short_ends_as_one_that_was_not(straight, tmp_path, after):
    with pytest.raises(RuntimeError, match="stopped"):
        train(TINY, tmp_path, reporter=Interrupt(after))
    train(TINY, tmp_path, resume=True)
    for part in (".", "last"):
        assert same(weights(tmp_path / part), weights(straight / part))
    assert logged(tmp_path) == logged(straight)


def test_a_run_cut_short_several_times_too(straight, tmp_path):
    for after in (2, 3, 4):
        with pytest.raises(RuntimeError):
            train(TINY, tmp_path, resume=True, reporter=Interrupt(after))
    train(TINY, tmp_path, resume=True)
    assert same(weights(tmp_path / "last"), weights(straight / "last"))


def test_ctrl_c_loses_nothing_but_the_current_step(straight, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(TINY, tmp_path, reporter=Interrupt(5, KeyboardInterrupt))
    assert newest(tmp_path / "checkpoints").step == 5
    train(TINY, tmp_path, resume=True)
    assert same(weights(tmp_path / "last"), weights(straight / "last"))
    assert logged(tmp_path) == logged(straight)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.2, 0.5])
def test_sigkill_at_any_moment(straight, tmp_path, moment):
    command = [sys.executable, "-m", "pcme", "train", "aviary-tiny", "--out", str(tmp_path)]
    # Sums are rounded in another order with another number of threads.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(moment)
    child.send_signal(signal.SIGKILL)
    child.wait()
    train(TINY, tmp_path, resume=True)
    assert same(weights(tmp_path / "last"), weights(straight / "last"))


def test_the_number_of_workers_changes_nothing(straight, tmp_path):
    train(TINY, tmp_path, workers=0)
    assert same(weights(tmp_path / "last"), weights(straight / "last"))


def test_another_seed_is_another_run(straight, tmp_path):
    train(TINY.changed(["seed=1"]), tmp_path)
    assert not same(weights(tmp_path / "last"), weights(straight / "last"))


class FirstPhase(Reporter):
    def begin(self, run):
        network = run.model.images.network
        self.before = {k: v.clone() for k, v in network.state_dict().items()}

    def step(self, run, values):
        if run.position.phase == 0:
            state = run.model.images.network.state_dict()
            assert same(self.before, state)  # BatchNorm statistics included
        else:
            self.moved = not same(self.before, run.model.images.network.state_dict())


def test_frozen_means_frozen_and_then_it_moves(tmp_path):
    reporter = FirstPhase()
    train(TINY, tmp_path, reporter=reporter)
    assert reporter.moved


def test_the_run_is_a_model_that_loads(straight):
    model = pcme.load(straight)
    captions = model.encode_captions(["a red bird", "nothing known xyzzy", ""])
    assert len(captions) == 3
    again = pcme.load(straight).encode_captions(["a red bird", "nothing known xyzzy", ""])
    assert torch.equal(captions.mean, again.mean)
    assert torch.equal(captions.log_sigma, again.log_sigma)


def test_a_saved_model_is_the_same_to_the_bit(straight, tmp_path):
    model = pcme.load(straight)
    model.save(tmp_path / "copy")
    assert same(weights(tmp_path / "copy"), weights(straight))
    pictures = [torch.full((3, 16, 16), value, dtype=torch.uint8) for value in (0, 200)]
    assert torch.equal(
        model.encode_images(pictures).mean,
        pcme.load(tmp_path / "copy").encode_images(pictures).mean,
    )


def test_everything_worth_watching_is_logged(straight):
    steps = [line for line in logged(straight) if "loss" in line]
    assert len(steps) == 12
    assert {"match", "kl", "scale", "shift", "image_log_sigma", "gradient"} <= steps[0].keys()
    assert any("val/t2i/r_precision" in line for line in logged(straight))


def test_a_run_is_not_overwritten(straight):
    with pytest.raises(ConfigError, match="--resume"):
        train(TINY, straight)


def test_a_run_does_not_go_on_with_another_recipe(straight):
    with pytest.raises(ConfigError, match="another recipe"):
        train(TINY.changed(["method.scale=3.0"]), straight, resume=True)


def test_a_finished_run_has_nothing_left_to_do(straight):
    before = weights(straight / "last")
    train(TINY, straight, resume=True)
    assert same(before, weights(straight / "last"))


def test_a_loss_that_is_not_finite_stops_with_its_step_and_batch(tmp_path):
    with pytest.raises(DataError, match=r"not finite at step \d+ .*images \["):
        train(TINY.changed(["phases.0.learning_rate=1e30", "phases.0.warmup_steps=0"]), tmp_path)


def test_a_backbone_learns_the_labels_and_nothing_else_moves(tmp_path):
    record = TINY.record()
    labels = {"epochs": 2, "learning_rate": 1e-2, "task": "labels"}
    record["phases"] = [labels, {"epochs": 1, "learning_rate": 1e-3}]
    recipe = from_record(record)
    with pytest.raises(RuntimeError):
        train(recipe, tmp_path, reporter=Interrupt(4))
    train(recipe, tmp_path, resume=True)
    train(recipe, tmp_path / "straight")
    assert same(weights(tmp_path / "last"), weights(tmp_path / "straight" / "last"))
    losses = [line["loss"] for line in logged(tmp_path) if "loss" in line][:6]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", pcme.methods.names())
def test_every_method_trains(tmp_path, name):
    record = {**TINY.record(), "method": {"kind": name}}
    record["phases"] = [{"epochs": 1, "learning_rate": 1e-3}]
    train(from_record(record), tmp_path)
    assert (tmp_path / "weights.safetensors").is_file()


@pytest.mark.parametrize(
    "switch",
    [
        "method.mean_attention=false",
        "method.sigma_attention=false",
        "method.sigma_squashed=true",
        "method.covariance=isotropic",
        "method.positives=diagonal",
        "method.kl_weight=0.1",
        "method.uniformity_weight=0.1",
        "average=0.9",
        "sampling.kind=one-per-class",
        "sampling.afresh=false",
        "phases.0.backbone=1",
        "phases.0.sigma_factor=0.1",
        "words.train=false",
    ],
)
def test_every_switch_trains(tmp_path, switch):
    short = TINY.changed(["phases.0.epochs=1", "phases.1.epochs=1", switch])
    train(short, tmp_path)
    assert (tmp_path / "weights.safetensors").is_file()
