"""pcme report."""

import json

import pytest
from typer.testing import CliRunner

from pcme.cli import app
from pcme.training import train
from tests.training.trained import SHORT


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train(SHORT.changed(['method={"kind": "infonce"}']), folder)
    return folder


def called(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_it_writes_a_page(run, tmp_path):
    out = tmp_path / "report.html"
    result = called(run, "--split", "val", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found == {"page": str(out), "bytes": out.stat().st_size, "figures": ["toy"]}
    assert out.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "said"), [(("nothing-here",), "not a model"), (("RUN", "--split", "tset"), "tset")]
)
def test_what_is_wrong_is_said(run, tmp_path, arguments, said):
    arguments = [run if word == "RUN" else word for word in arguments]
    result = called(*arguments, "--out", tmp_path / "report.html")
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "report.html").exists()


def test_a_page_that_cannot_be_written_is_said_before_the_work(run, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("nothing is to be gather")

    monkeypatch.setattr("pcme.showcase.gather", never)
    result = called(run, "--out", tmp_path)
    assert (result.exit_code, "it is a folder" in " ".join(result.stderr.split())) == (2, True)
