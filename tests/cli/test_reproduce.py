"""pcme reproduce and pcme list experiments, as people and programs call them."""

import pytest

from pcme import reproduce as package
from pcme.cli.reproduce import _duration
from pcme.reproduce.outcome import write
from tests.helpers import call, printed, record
from tests.reproduce.tiny import RESULT


@pytest.fixture
def asked(monkeypatch):
    """What the package is asked for; it answers with a handmade result."""
    seen = {}

    def answer(names, *, progress, ended, **options):
        seen.update(options, names=names)
        progress("runs", 1, 3)
        ended(package.JobEnded("PCME", 12.0, 1, 2, 30.0))
        ended(package.JobEnded("VSE0", 0.0, 2, 2, 0.0, failure="it broke"))
        return [RESULT]

    monkeypatch.setattr(package, "reproduce", answer)
    return seen


def test_tables_go_to_stdout_and_progress_to_stderr(asked, tmp_path):
    options = ("--quick", "--folds", "--seeds", "2", "--jobs", "3", "--out", tmp_path, "--set", "dim=8")
    done = call("reproduce", "table2", "dof", *options)
    assert done.exit_code == 0, done.stderr
    assert asked["names"] == ["table2", "dof"]
    assert (asked["seeds"], asked["jobs"], asked["quick"], asked["folds"]) == (2, 3, True, True)
    assert (asked["out"], asked["changes"], asked["data"]) == (tmp_path, ["dim=8"], "aviary")
    assert "| PCME | 50.0 ± 0.0 | 26.28 |" in done.stdout
    assert done.stderr.splitlines() == [
        "2 of 3 runs to make, 2 at a time",
        "[1/2] PCME: 12 s, about 30 s left",
        "[2/2] VSE0: it broke",
    ]


def test_json_is_the_records(asked):
    (found,) = record("reproduce", "table2")
    assert (found["experiment"], found["tables"][0]["title"]) == ("table9", "Unseen classes")
    assert found["format"] == "pcme-reproduction-1"


@pytest.mark.parametrize(("seconds", "text"), [(48.2, "48 s"), (720, "12 min"), (12_240, "3.4 h")])
def test_durations_are_said_as_people_say_them(seconds, text):
    assert _duration(seconds) == text


def test_a_report_goes_beside_the_results_and_not_into_the_docs_of_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/reproduce/results", "other"):
        (tmp_path / folder).mkdir(parents=True)
        write(RESULT, tmp_path / folder / f"{RESULT.name}.json")
    printed("reproduce", "report")
    printed("reproduce", "report", "--results", "other")
    assert record("reproduce", "report", "--results", "other", "--out", "docs/RESULTS.md")
    assert (tmp_path / "runs" / "reproduce" / "results.md").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "other", "other.md", "docs"}
