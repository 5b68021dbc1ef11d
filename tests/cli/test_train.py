"""pcme train and pcme show, as people and programs call them."""

import json

from tests.data.formats.birds import folded
from tests.helpers import call, printed, record, refused
from tests.training.trained import SMALL

SHORT = ["--set", "phases.0.epochs=1", "--set", "phases.1.epochs=1"]
BIRDS = [word for change in SMALL for word in ("--set", change)]


def test_train_writes_a_run_and_says_how_good_it_is(tmp_path):
    words = ("train", "aviary-tiny", "--out", tmp_path, *SHORT)
    assert 0 <= record(*words, "--seed", "3")["validation"]["t2i"]["r_precision"] <= 1
    assert {path.name for path in tmp_path.iterdir()} >= {
        "recipe.json", "weights.safetensors", "vocab.json", "metrics.jsonl", "checkpoints", "last",
        "README.md", "tensorboard",
    }  # fmt: skip
    assert json.loads((tmp_path / "recipe.json").read_text())["seed"] == 3
    assert "--resume" in refused(*words, "--seed", "3")
    assert "seed: 3 then, 4 now" in refused(*words, "--seed", "4", "--resume")
    assert "wrote" in printed(*words, "--seed", "3", "--resume")


def test_an_early_stop_and_its_reason_are_said(tmp_path):
    patient = ["--set", "validation.patience=1", "--set", "phases.0.epochs=9"]
    done = call("train", "aviary-tiny", "--out", tmp_path, *patient)
    assert done.exit_code == 0, done.stderr
    assert "phase 0 ends at step" in " ".join(done.stderr.split())


def test_show_prints_the_recipe_and_differences():
    assert json.loads(printed("show", "aviary"))["name"] == "aviary"
    assert record("show", "aviary-tiny", "--diff", "aviary")["dim"] == {"base": 128, "recipe": 16}
    assert "dim" in printed("show", "aviary-tiny", "--diff", "aviary")


def test_folds_are_trained_and_judged_and_their_mean_is_told(tmp_path):
    birds, out = folded(tmp_path / "birds"), tmp_path / "folds"
    words = ("train", "cub", "--data-root", birds, "--out", out, "--folds", *BIRDS)
    told = printed(*words, width=200)
    starts = [line.split()[0] for line in told.splitlines()[1:7]]
    assert starts == [f"fold{k}," for k in (1, 2, 3) for _ in ("i2t", "t2i")]
    assert told.count(" ± ") == 2 * 6, "two directions, six metrics"
    assert "5 classes judge, 1 of them in more than one fold" in told
    assert f"wrote {out / 'folds.json'}" in told
    assert "--resume" in refused(*words)
    found, stored = record(*words, "--resume"), json.loads((out / "folds.json").read_text())
    assert {key: found[key] for key in stored} == stored


def test_folds_of_data_without_any_are_refused_and_nothing_is_made(tmp_path):
    message = refused("train", "aviary-tiny", "--folds", "--out", tmp_path / "run")
    assert "aviary: cross-validation needs folds" in message
    assert not (tmp_path / "run").exists()
