import errno
import json
import os
import re
import resource
import subprocess
import sys
from itertools import product
from pkgutil import resolve_name
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import save_file

import pcme
from pcme import PcmeError
from pcme.errors import ConfigError, DataError, FormatError
from pcme.recipes.schema import from_record
from pcme.training import Reporter, train
from pcme.training.checkpoint import newest, save
from tests.data.formats.test_own import sidecar
from tests.models import copied
from tests.training.trained import NO_WARMUP, SHORT, TINY, Notes, same_run, train_cut, weights


@pytest.fixture(scope="module")
def cut_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut") / "run"
    train_cut(TINY, folder, 8)
    return folder


@pytest.fixture
def cut(cut_once, tmp_path):
    """A run that stopped in its third epoch, with checkpoints of steps 3 and 6."""
    return copied(cut_once, tmp_path / "cut")


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ("pcme.training.checkpoint.write_new", 6),  # 4 files a checkpoint: in the second
        ("pcme.training.checkpoint.os.replace", 14),  # 1 for a checkpoint, up to 7 for models and the card
        ("pathlib.Path.write_bytes", 3),  # weights
        ("torch.utils.tensorboard.SummaryWriter.flush", 1),  # before the second checkpoint
        ("pathlib.Path.write_text", 5),  # recipe, vocabulary, card
    ],
)
def test_a_full_disk_is_named_and_costs_nothing(sigma_run, tmp_path, monkeypatch, target, after):
    real, calls = resolve_name(target), iter(range(10**6))

    def full(*args, **options):
        if next(calls) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(target, full)
        pattern = rf"{tmp_path}: the disk is full at step \d+, got .*No space left.*--resume"
        with pytest.raises(FormatError, match=pattern) as error:
            train(TINY, tmp_path)
    assert str(newest(tmp_path / "checkpoints").folder) in str(error.value)
    train(TINY, tmp_path, resume=True)
    assert same_run(tmp_path, sigma_run)


class MetricsOnAFullDisk(Reporter):
    """After step 7 metrics.jsonl is on a device that is always full."""

    def step(self, run, values):
        if run.position.total == 7:
            path = run.folder / "metrics.jsonl"
            path.rename(run.folder / "before")
            path.symlink_to("/dev/full")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_under_the_metrics(sigma_run, tmp_path):
    with pytest.raises(FormatError, match=r"the disk is full.*--resume"):
        train(TINY, tmp_path, reporter=MetricsOnAFullDisk())
    (tmp_path / "before").replace(tmp_path / "metrics.jsonl")
    train(TINY, tmp_path, resume=True)
    assert same_run(tmp_path, sigma_run)


@pytest.mark.slow
def test_a_disk_that_really_takes_no_more(sigma_run, tmp_path):
    train_cut(TINY, tmp_path, 5, KeyboardInterrupt)
    limit = (tmp_path / "checkpoints" / "step-00000005" / "model.safetensors").stat().st_size - 1
    done = subprocess.run(
        [sys.executable, "-m", "pcme", "train", "aviary-tiny", "--resume", "--out", str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "the disk is full" in done.stderr
    assert "step-00000005" in done.stderr
    train(TINY, tmp_path, resume=True)
    assert same_run(tmp_path, sigma_run)


@pytest.mark.parametrize(
    "fail",
    [
        lambda *args: torch.empty(2**50),  # really: DefaultCPUAllocator refuses
        MemoryError(),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 12 bytes."),
    ],
    ids=["real", "MemoryError", "CUDA", "CPU"],
)
def test_too_little_memory_names_the_setting_to_lower(cut, monkeypatch, fail):
    monkeypatch.setattr("pcme.training.steps.clip_gradients", Mock(side_effect=fail))
    pattern = r"out of memory at step 6.*24 pairs.*sampling.batch_size or augment.*step-00000006"
    with pytest.raises(ConfigError, match=pattern) as caught:
        train(TINY, cut, resume=True)
    assert "\n" not in str(caught.value)


def test_too_little_memory_names_the_key_that_decides(tmp_path, monkeypatch):
    """`one-per-class` does not read sampling.batch_size."""
    monkeypatch.setattr("pcme.training.steps.clip_gradients", Mock(side_effect=MemoryError()))
    by_class = ["sampling.kind=one-per-class", "sampling.classes_per_batch=5"]
    with pytest.raises(ConfigError, match=r"5 pairs.*Lower sampling\.classes_per_batch or augment"):
        train(SHORT.changed(by_class), tmp_path)


def test_other_errors_stay_what_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("pcme.training.steps.clip_gradients", Mock(side_effect=RuntimeError("a defect")))
    with pytest.raises(RuntimeError, match="a defect"):
        train(SHORT, tmp_path)


@pytest.mark.parametrize(("phase", "last"), [(0, "no checkpoint yet"), (1, "step-00000006")])
def test_a_loss_that_is_not_finite_stops_with_its_step_batch_and_last_good_state(tmp_path, phase, last):
    recipe = TINY.changed([f"phases.{phase}.learning_rate=1e30", f"phases.{phase}.warmup_steps=0"])
    batch = r"images \[\d+(, \d+){7}\] \.\.\., captions \[-?\d+"
    with pytest.raises(DataError, match=rf"not finite at step \d+.*{batch}.*{last}"):
        train(recipe, tmp_path)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (["data.train_species=1", "sampling.kind=one-per-class"], DataError, "single class.*sampling.kind=pairs"),
        (["data.train_species=1", "data.train_images=1"], DataError, "at least 2 usable images, got 1"),
        (["phases.1.warmup_steps=4"], ConfigError, r"phases.1.warmup_steps: .*3 steps"),
    ],
)
def test_a_recipe_that_cannot_train_is_refused_before_anything_is_written(tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        train(SHORT.changed(changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("few", [["data.train_species=2", "data.train_images=1"], ["data.train_species=1"]])
def test_two_images_or_a_single_class_are_enough_for_pairs(tmp_path, few):
    train(SHORT.changed([*few, *NO_WARMUP]), tmp_path)
    assert all(torch.isfinite(value).all() for value in weights(tmp_path / "last").values())


def test_a_folder_that_cannot_be_the_runs_is_refused_before_any_work(sigma_run, tmp_path, monkeypatch):
    monkeypatch.setattr("pcme.training.prepare.find_dataset", Mock(side_effect=AssertionError("work")))
    with pytest.raises(ConfigError, match="holds a run at step 12"):
        train(TINY, sigma_run)
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ConfigError, match="cannot be the run's folder"):
            train(SHORT, out)
    monkeypatch.setattr("pcme.training.state.os.access", lambda path, mode: False)  # also for root
    with pytest.raises(ConfigError, match="cannot be the run's folder"):
        train(SHORT, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_batch_cut_to_the_number_of_images_is_reported(tmp_path):
    notes = Notes()
    train(SHORT.changed(["sampling.batch_size=500", *NO_WARMUP]), tmp_path, reporter=notes)
    assert any("batch_size=500 is cut to 72" in text for text in notes.texts)


def test_captions_of_unknown_words_only(tmp_path):
    model = train(SHORT.changed(["words.min_count=1000000"]), tmp_path)
    assert model.vocab.words == ()
    pcme.load(tmp_path).encode_captions(["a red bird", "", "xyzzy"]).require_finite("captions")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("method.scale=3.0", "method.scale: None then, 3.0 now"),
        ("precision=bfloat16", "precision: 'float32' then, 'bfloat16' now"),
    ],
)
def test_a_run_does_not_go_on_with_another_recipe(sigma_run, change, named):
    with pytest.raises(ConfigError, match=f"another recipe, {named}.*another --out"):
        train(TINY.changed([change]), sigma_run, resume=True)


def test_a_run_does_not_go_on_with_other_data(tmp_path):
    record = {**SHORT.record(), "data": {"kind": "sidecar"}}
    recipe = from_record(record).changed(["sampling.afresh=false", *NO_WARMUP])
    first, other, run = (tmp_path / name for name in ("first", "other", "run"))
    for root, split in product((first, other), ("train", "val")):
        sidecar(root / split, 4)
    (other / "train" / "0.txt").write_text("bird number 0\nanother bird\n")
    train_cut(recipe, run, 3, data_root=first)
    with pytest.raises(ConfigError, match=r"other data.*4 images and 8 captions.*root"):
        train(recipe, run, data_root=other, resume=True)
    train(recipe, run, data_root=first, resume=True)


def test_a_run_of_an_older_version_goes_on(sigma_run, cut):
    """Keys that a recipe did not have then count as they were: with their defaults."""
    last = newest(cut / "checkpoints")
    state = last.record("state")
    del state["data"], state["precision"], state["recipe"]["precision"]
    del state["recipe"]["validation"]["patience"]
    for name in ("best_step", "best_figures", "waited"):
        del state["position"][name]
    tensors = {name: last.tensors(name) for name in ("model", "optimiser")}
    save(cut / "checkpoints", last.step, tensors, {"state": state})
    train(TINY, cut, resume=True)
    assert same_run(cut, sigma_run)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-10])


def a_word_less(path):
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {name: record[name][:-1] for name in ("words", "counts")}))


CHANGES = {
    "weights.safetensors": lambda path: save_file({"captions.words.words.weight": torch.zeros(100, 8)}, path),
    "recipe.json": lambda path: path.write_text(path.read_text().replace('"dim": 16', '"dim": 32')),
    "vocab.json": a_word_less,
}


@pytest.mark.parametrize(
    ("name", "damage"),
    [(name, damage) for name, change in CHANGES.items() for damage in (change, truncated, os.unlink)],
)
def test_a_damaged_model_is_refused_by_the_name_of_the_file(sigma_run, tmp_path, name, damage):
    run = copied(sigma_run, tmp_path / "run")
    damage(run / name)
    for use in (pcme.load, lambda folder: train(TINY, folder, resume=True)):
        with pytest.raises(PcmeError, match=re.escape(name)):
            use(run)


def flip(path):
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


def test_a_flipped_byte_in_a_checkpoint_costs_an_epoch(sigma_run, cut):
    notes = Notes()
    flip(newest(cut / "checkpoints").folder / "model.safetensors")
    train(TINY, cut, resume=True, reporter=notes)
    (note,) = [text for text in notes.texts if "damaged" in text]
    assert "model.safetensors was altered" in note
    assert "resuming from step 3 instead" in note
    assert same_run(cut, sigma_run)


def test_a_run_without_a_whole_checkpoint_is_not_begun_again_in_silence(cut):
    metrics = (cut / "metrics.jsonl").read_text()
    for folder in (cut / "checkpoints").glob("step-*"):
        flip(folder / "model.safetensors")
    with pytest.raises(FormatError, match=r"no checkpoint is whole.*model.safetensors was alt"):
        train(TINY, cut, resume=True)
    with pytest.raises(ConfigError, match="holds a damaged run"):
        train(TINY, cut)
    assert (cut / "metrics.jsonl").read_text() == metrics
