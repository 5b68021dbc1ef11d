"""pcme calibrate on the terminal and for machines."""

import json

import pytest
from typer.testing import CliRunner

from pcme.cli import app
from pcme.uncertainty import Confidence
from tests.models import copied


@pytest.fixture(scope="module")
def folder(sigma_run, tmp_path_factory):
    return copied(sigma_run, tmp_path_factory.mktemp("calibrate") / "run")


def run(*args):
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": "120"})
    return plain.invoke(app, ["calibrate", *map(str, args)])


def test_it_prints_what_the_confidence_is_worth_and_writes_it(folder):
    done = run(folder, "aviary")
    assert done.exit_code == 0, done.output
    for text in (
        "calibration error, all pairs", "its own matches removed", "matches nothing here",
        "the least p refused", "the largest σ refused", "assessed on 5,000 captions, 500 images",
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
        (("nowhere", "aviary"), "nowhere: not a model"),
        (("{run}", "aviry"), "aviry"),
        (("{run}", "aviary", "--split", "dev"), "dev"),
        (("{run}", "aviary", "--method", "histogram"), 'one of isotonic, platt, got "histogram"'),
        (("{run}", "aviary", "--false-alarm", "3"), "false_alarm"),
    ],
)
def test_mistakes_are_explained(folder, args, message):
    done = run(*(arg.format(run=folder) for arg in args))
    assert (done.exit_code, message in " ".join(done.stderr.split())) == (2, True), done.stderr
