"""pcme reproduce and pcme list experiments, as people and programs call them."""

import json

import pytest
from typer.testing import CliRunner

from pcme import reproduce as package
from pcme.cli import app
from pcme.cli.reproduce import _duration
from pcme.reproduce.outcome import write
from tests.reproduce.tiny import RESULT


def run(*args):
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": "100"})
    return plain.invoke(app, [str(arg) for arg in args])


@pytest.fixture
def asked(monkeypatch):
    """What the package is asked for; it answers with a handmade result."""
    seen = {}

    def answer(wanted, *, progress, ended, **options):
        seen.update(options, wanted=wanted)
        progress("runs", 1, 3)
        ended(package.JobEnded("PCME", 12.0, 1, 2, 30.0))
        ended(package.JobEnded("VSE0", 0.0, 2, 2, 0.0, failure="it broke"))
        return [RESULT]

    monkeypatch.setattr(package, "reproduce", answer)
    return seen


def test_tables_go_to_stdout_and_progress_to_stderr(asked, tmp_path):
    done = run(
        "reproduce", "table2", "dof", "--quick", "--seeds", "2", "--jobs", "3", "--out", tmp_path,
        "--set", "dim=8",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert asked["wanted"] == ["table2", "dof"]
    assert (asked["seeds"], asked["jobs"], asked["quick"]) == (2, 3, True)
    assert (asked["out"], asked["changes"], asked["data"]) == (tmp_path, ["dim=8"], "aviary")
    assert "| PCME | 50.0 ± 0.0 | 26.28 |" in done.stdout
    assert done.stderr.splitlines() == [
        "2 of 3 runs to make, 2 at a time",
        "[1/2] PCME: 12 s, about 30 s left",
        "[2/2] VSE0: it broke",
    ]


def test_json_is_the_records(asked):
    (found,) = json.loads(run("reproduce", "table2", "--json").stdout)
    assert (found["experiment"], found["tables"][0]["title"]) == ("table9", "Unseen classes")
    assert found["format"] == "pcme-reproduction-1"


def test_the_report(tmp_path):
    (tmp_path / "made").mkdir()
    write(RESULT, tmp_path / "made" / f"{RESULT.name}.json")
    out = tmp_path / "docs" / "RESULTS.md"
    done = run("reproduce", "report", "--results", tmp_path / "made", "--out", out)
    assert (done.exit_code, out.is_file()) == (0, True), done.stderr
    assert json.loads(run("reproduce", "report", "--out", out, "--json").stdout)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["table9"], 'unknown experiment "table9"'),
        (["table3"], "pcme reproduce table3 --data coco"),
        (["table2", "--data", "flickr"], "aviary, cub, coco"),
        (["table2", "--set", "dmi=8"], 'Did you mean "dim"'),
        (["table2", "--data", "cub", "--data-root", "nowhere"], "nowhere"),
        (["coco-1k", "--data", "coco", "--data-root", ".", "--quick"], "dataset_coco"),
    ],
)
def test_mistakes_are_explained(args, message, tmp_path):
    done = run("reproduce", *args, "--out", tmp_path)
    assert (done.exit_code, message in " ".join(done.stderr.split())) == (2, True), done.stderr


def test_experiments_are_listed():
    found = json.loads(run("list", "experiments", "--json").stdout)
    assert {"table1", "table2", "table3", "fig7"} <= {record["name"] for record in found}
    assert "Table D.1" in " ".join(run("list", "experiments").stdout.split())


@pytest.mark.parametrize(("seconds", "text"), [(48.2, "48 s"), (720, "12 min"), (12_240, "3.4 h")])
def test_durations_are_said_as_people_say_them(seconds, text):
    assert _duration(seconds) == text


def test_a_report_of_what_is_not_there_says_so_and_makes_nothing(tmp_path):
    out = tmp_path / "docs" / "RESULTS.md"
    done = run("reproduce", "report", "--results", tmp_path / "nowhere", "--out", out)
    said = " ".join(done.stderr.split())
    assert (done.exit_code, "nowhere: not found" in said) == (2, True), done.stderr
    assert not list(tmp_path.iterdir())


def test_a_report_goes_beside_the_results_and_not_into_the_docs_of_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/reproduce/results", "other"):
        (tmp_path / folder).mkdir(parents=True)
        write(RESULT, tmp_path / folder / f"{RESULT.name}.json")
    assert run("reproduce", "report").exit_code == 0
    assert run("reproduce", "report", "--results", "other").exit_code == 0
    assert (tmp_path / "runs" / "reproduce" / "results.md").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "other", "other.md"}
