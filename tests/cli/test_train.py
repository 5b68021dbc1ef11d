"""pcme train and pcme show, as people and programs call them."""

import json

import pytest
from typer.testing import CliRunner

from pcme.cli import app

SHORT = ["--set", "phases.0.epochs=1", "--set", "phases.1.epochs=1"]


def run(*args: str):
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": "100"})
    return plain.invoke(app, [str(arg) for arg in args])


def test_train_writes_a_run_and_says_how_good_it_is(tmp_path):
    done = run("train", "aviary-tiny", "--out", tmp_path, *SHORT, "--seed", "3", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert 0 <= report["validation"]["t2i"]["r_precision"] <= 1
    assert {path.name for path in tmp_path.iterdir()} >= {
        "recipe.json", "weights.safetensors", "vocab.json", "metrics.jsonl", "checkpoints", "last",
        "README.md", "tensorboard",
    }  # fmt: skip
    assert json.loads((tmp_path / "recipe.json").read_text())["seed"] == 3
    again = run("train", "aviary-tiny", "--out", tmp_path, *SHORT, "--seed", "3")
    assert (again.exit_code, "--resume" in again.stderr) == (2, True)
    resumed = run("train", "aviary-tiny", "--out", tmp_path, *SHORT, "--seed", "3", "--resume")
    assert resumed.exit_code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["aviry"], 'Did you mean "aviary"'),
        (["aviary-tiny", "--set", "sede=1"], 'Did you mean "seed"'),
        (["none.toml"], "none.toml"),
    ],
)
def test_mistakes_are_explained(tmp_path, args, message):
    done = run("train", *args, "--out", tmp_path / "run")
    assert (done.exit_code, message in done.stderr) == (2, True)


def test_resuming_with_another_recipe_names_the_keys(tmp_path):
    assert run("train", "aviary-tiny", "--out", tmp_path, *SHORT).exit_code == 0
    done = run("train", "aviary-tiny", "--out", tmp_path, *SHORT, "--seed", "4", "--resume")
    assert (done.exit_code, "seed: 0 then, 4 now" in done.stderr) == (2, True)


def test_an_early_stop_and_its_reason_are_said(tmp_path):
    patient = ["--set", "validation.patience=1", "--set", "phases.0.epochs=9"]
    done = run("train", "aviary-tiny", "--out", tmp_path, *patient)
    assert done.exit_code == 0, done.stderr
    assert "phase 0 ends at step" in " ".join(done.stderr.split())


def test_show_prints_the_recipe_and_differences():
    assert json.loads(run("show", "aviary").stdout)["name"] == "aviary"
    found = json.loads(run("show", "aviary-tiny", "--diff", "aviary", "--json").stdout)
    assert found["dim"] == {"base": 128, "recipe": 16}
    assert "dim" in run("show", "aviary-tiny", "--diff", "aviary").stdout


def test_recipes_are_listed():
    records = json.loads(run("list", "recipes", "--json").stdout)
    assert {"aviary", "aviary-tiny"} <= {record["name"] for record in records}
    assert "pcme-overlap" in run("list", "recipes").stdout
