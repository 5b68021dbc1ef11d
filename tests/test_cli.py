"""The command line: quick to start, plain about errors, and readable by machines."""

import subprocess
import sys
from unittest.mock import Mock

import pytest

import pcme
from pcme import analysis
from pcme.errors import DataError
from tests.helpers import call, printed, record

HELP_THEN_LIST_HEAVY_MODULES = """
import sys
from pcme.cli import main

sys.argv = ["pcme", *sys.argv[1:]]
try:
    main()
finally:
    print("loaded:", sorted({"torch", "numpy", "numba", "scipy", "pandas"} & set(sys.modules)))
"""


def python(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False)


def break_demo(monkeypatch, error: Exception) -> None:
    """Make `pcme demo` raise, without needing the real one."""
    monkeypatch.setitem(sys.modules, "pcme.showcase.demo", Mock(run=Mock(side_effect=error)))


@pytest.mark.parametrize("args", [["--help"], ["list", "scores", "--help"], ["version"]])
def test_what_needs_no_tensors_imports_no_torch(args):
    done = python("-c", HELP_THEN_LIST_HEAVY_MODULES, *args)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_the_check_above_sees_torch_when_it_is_there():
    done = python("-c", "import torch\n" + HELP_THEN_LIST_HEAVY_MODULES, "--help")
    assert "'torch'" in done.stdout.splitlines()[-1]


def test_python_dash_m_runs_the_same_program():
    done = python("-m", "pcme", "version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"pcme {pcme.__version__}\n", "")


def test_help_names_every_verb_and_gives_an_example():
    text = printed("--help")
    assert all(verb in text for verb in ("list", "demo", "version", "Example:"))


def test_version_as_json_names_what_a_bug_report_needs():
    versions = record("version")
    assert versions["pcme"] == pcme.__version__
    assert list(versions) == ["pcme", "python", "torch", "numpy", "numba", "scipy", "pillow"]


def test_list_scores_is_the_registry_for_machines_and_people(monkeypatch):
    names, registry = pcme.scores.names(), pcme.scores.registry
    rows = record("list", "scores")
    assert [row["name"] for row in rows] == names
    assert {a: row["name"] for row in rows for a in row["aliases"]} == registry.aliases()
    header, *lines = printed("list", "scores", width=400).splitlines()  # one line each
    assert header.split() == ["name", "aliases", "origin", "summary"]
    assert [line.split()[0] for line in lines] == names
    assert all(registry.summary(name) in line for name, line in zip(names, lines, strict=True))
    monkeypatch.setattr(registry, "summary", lambda name: "a matrix [queries gallery]")
    assert "a matrix [queries gallery]" in printed("list", "scores", width=400)


def test_list_has_every_kind_with_origin():
    found = record("list")
    assert list(found) == ["scores", "methods", "backbones", "datasets", "analyses", "recipes", "experiments"]
    assert all(row["origin"] == "built-in" for rows in found.values() for row in rows)
    assert {row["embeds"] for row in found["backbones"]} == {"images", "captions"}
    assert all(row["summary"] for kind, rows in found.items() if kind != "recipes" for row in rows)
    assert [row["name"] for row in found["analyses"]] == analysis.names()
    assert all(row["reading"] for row in found["analyses"])
    assert {"aviary", "aviary-tiny"} <= {row["name"] for row in found["recipes"]}
    assert {"table1", "table2", "table3", "fig7"} <= {row["name"] for row in found["experiments"]}
    text = " ".join(printed("list").split())
    assert all(part in text for part in ("convnet", "calibration", "pcme-overlap", "Table D.1"))


def test_an_error_of_ours_is_a_message_and_status_2(monkeypatch):
    break_demo(monkeypatch, DataError("no images. Given: []. Pass at least one."))
    done = call("demo")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "pcme: no images. Given: []. Pass at least one.\n"


def test_debug_shows_the_traceback_and_an_error_not_of_ours_is_never_hidden(monkeypatch):
    error = DataError("no images")
    break_demo(monkeypatch, error)
    done = call("--debug", "demo")
    assert (done.exit_code, done.exception) == (1, error)
    break_demo(monkeypatch, error := RuntimeError("a defect"))
    assert call("demo").exception is error
