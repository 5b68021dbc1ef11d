"""pcme demo on the terminal and for machines."""

import json

import pytest
import torch
from typer.testing import CliRunner

from pcme.cli import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("demo") / "run"
    yield folder
    torch.set_num_threads(threads)


def run(folder, *options):
    return CliRunner().invoke(app, ["demo", "--recipe", "aviary-tiny", "--out", str(folder), *options])


def test_it_prints_figures_searches_and_where_everything_is(folder):
    done = run(folder)
    assert done.exit_code == 0, done.output
    assert "unseen species, 1,000 images" in done.stdout
    assert "R-Precision, captions to images" in done.stdout
    assert done.stdout.count("(in truth ") == 3
    assert str(folder / "searches.png") in done.stdout
    assert (folder / "searches.png").is_file()


def test_machines_get_the_same(folder):
    record = json.loads(run(folder, "--json").stdout)
    assert record["run"] == str(folder)
    assert len(record["searches"]) == 3
    assert record["searches"][2]["matches"] == 0
    assert 0 <= record["figures"]["r_precision t2i"] <= 1
