"""The command line: quick to start, plain about errors, and readable by machines."""

import json
import subprocess
import sys
from types import ModuleType

import pytest
from typer.testing import CliRunner

import pcme
from pcme.cli import app
from pcme.errors import DataError

HELP_THEN_LIST_HEAVY_MODULES = """
import sys
from pcme.cli import main

sys.argv = ["pcme", *sys.argv[1:]]
try:
    main()
finally:
    print("loaded:", sorted({"torch", "numpy", "numba", "scipy", "pandas"} & set(sys.modules)))
"""


def run(*args: str, debug: bool = False):
    """Run the command line in this process, without colours whatever the machine's settings."""
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None})
    return plain.invoke(app, ["--debug", *args] if debug else [*args])


def python(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False)


def break_demo(monkeypatch, error: Exception) -> None:
    """Make `pcme demo` raise, without needing the real one."""

    def main(*_: object, **__: object) -> None:
        raise error

    module = ModuleType("pcme.showcase.demo")
    module.run = main  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pcme.showcase.demo", module)


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
    text = run("--help").stdout
    assert all(verb in text for verb in ("list", "demo", "version", "Example:"))


def test_version_as_json_names_what_a_bug_report_needs():
    versions = json.loads(run("version", "--json").stdout)
    assert versions["pcme"] == pcme.__version__
    assert list(versions) == ["pcme", "python", "torch", "numpy", "numba", "scipy", "pillow"]


def test_list_scores_as_json_is_the_registry():
    rows = json.loads(run("list", "scores", "--json").stdout)
    assert [row["name"] for row in rows] == pcme.scores.names()
    assert {a: row["name"] for row in rows for a in row["aliases"]} == (pcme.scores.registry.aliases())
    assert all(row["summary"] for row in rows)


def test_list_scores_as_text_has_one_entry_per_score(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")  # one line each
    header, *lines = run("list", "scores").stdout.splitlines()
    assert header.split() == ["name", "aliases", "origin", "summary"]
    assert [line.split()[0] for line in lines] == pcme.scores.names()
    assert all(
        pcme.scores.registry.summary(name) in line for name, line in zip(pcme.scores.names(), lines, strict=True)
    )


def test_list_scores_prints_square_brackets_as_they_are(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(pcme.scores.registry, "summary", lambda name: "a matrix [queries gallery]")
    assert "a matrix [queries gallery]" in run("list", "scores").stdout


def test_list_has_every_kind_with_origin():
    found = json.loads(run("list", "--json").stdout)
    assert list(found) == [
        "scores", "methods", "backbones", "datasets", "analyses", "recipes", "experiments",
    ]  # fmt: skip
    assert all(row["origin"] == "built-in" for rows in found.values() for row in rows)
    assert {row["embeds"] for row in found["backbones"]} == {"images", "captions"}
    assert all(row["summary"] for row in found["methods"] + found["backbones"] + found["datasets"])
    assert "convnet" in run("list").stdout


def test_an_error_of_ours_is_a_message_and_status_2(monkeypatch):
    break_demo(monkeypatch, DataError("no images. Given: []. Pass at least one."))
    result = run("demo")
    assert result.exit_code == 2
    assert result.stderr == "pcme: no images. Given: []. Pass at least one.\n"
    assert result.stdout == ""


def test_debug_shows_the_traceback(monkeypatch):
    error = DataError("no images")
    break_demo(monkeypatch, error)
    result = run("demo", debug=True)
    assert result.exit_code == 1
    assert result.exception is error


def test_any_other_error_is_not_hidden(monkeypatch):
    error = RuntimeError("a defect")
    break_demo(monkeypatch, error)
    assert run("demo").exception is error


@pytest.mark.parametrize("args", [["lst"], ["list", "scors"], ["version", "--jsn"]])
def test_a_wrong_word_is_status_2(args):
    result = run(*args)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
