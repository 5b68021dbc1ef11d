"""pcme calibrate on the terminal and for machines."""

import json

import pytest
from typer.testing import CliRunner

from pcme import recipes
from pcme.cli import app
from pcme.training import train
from pcme.uncertainty import Confidence


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate") / "run"
    train(recipes.get("aviary-tiny"), folder)
    return folder


def run(*args):
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": "120"})
    return plain.invoke(app, ["calibrate", *map(str, args)])


def test_it_prints_what_the_confidence_is_worth_and_writes_it(folder):
    done = run(folder, "aviary")
    assert done.exit_code == 0, done.output
    for text in (
        "calibration error, all pairs", "its own matches removed", "fits nothing here",
        "the least p refused", "the widest σ refused", "judged on 5,000 captions, 500 images",
        "The share of false alarms is held among up to about",
    ):  # fmt: skip
        assert text in done.stdout
    assert str(folder / "confidence.json") in done.stdout
    assert Confidence.load(folder).basis.method == "isotonic"


def test_machines_get_all_of_it(folder, tmp_path):
    options = ("--method", "platt", "--false-alarm", "0.05", "--split", "test")
    done = run(folder, "aviary", *options, "--out", tmp_path, "--json")
    record = json.loads(done.stdout)
    assert record["out"] == str(tmp_path / "confidence.json")
    assert record["basis"]["data"] == "aviary/test"
    assert record["answerable"]["false_alarm"] == 0.05
    assert record["answerable"]["reach"] >= record["answerable"]["gallery"] == 1000
    assert record["report"]["raw"]["reliability"]
    assert len(record["report"]["by_p"]["curve"]["risk"]) == 100
    assert Confidence.load(folder, stored=tmp_path).basis.method == "platt"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nowhere", "aviary"), "nowhere is not a model"),
        (("{run}", "aviry"), 'unknown dataset "aviry"'),
        (("{run}", "aviary", "--split", "dev"), 'no split "dev"'),
        (("{run}", "aviary", "--method", "histogram"), 'no way of calibrating "histogram"'),
        (("{run}", "aviary", "--false-alarm", "3"), "false_alarm is a share from 0 to 1"),
    ],
)
def test_mistakes_are_explained(folder, args, message):
    done = run(*(arg.format(run=folder) for arg in args))
    assert (done.exit_code, message in " ".join(done.stderr.split())) == (2, True), done.stderr
