"""pcme evaluate, as people and programs call it."""

import json

import pytest
from typer.testing import CliRunner

from pcme.cli import app
from pcme.evaluation import Evaluation
from tests.evaluation.models import untrained


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("evaluate") / "run")


def run(*args, width=100):
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": str(width)})
    return plain.invoke(app, ["evaluate", *map(str, args)])


def test_programs_get_one_object_for_one_score(folder):
    done = run(folder, "--json")
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert set(record) == {"i2t", "t2i", "score", "queries", "gallery"}
    assert (record["score"], record["queries"], record["gallery"]) == ("overlap", 48, 12)
    for way in ("i2t", "t2i"):
        names = {"r_precision", "recall@1", "recall@5", "recall@10", "map@r"}
        assert names <= set(record[way])
        assert all(0 <= record[way][name] <= 1 for name in names)


def test_programs_get_a_list_for_several_scores(folder):
    records = json.loads(run(folder, "--scores", "mean,csd", "--json").stdout)
    assert [record["score"] for record in records] == ["mean", "csd"]


def test_people_get_a_table_with_intervals(folder):
    done = run(folder)
    lines = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert done.stdout.startswith("aviary/test: 12 images, 48 captions")
    assert lines["R-Precision"].count("[") == 2
    assert "PMRP, ζ = 2" in lines
    assert "median rank" in lines
    assert "RSUM of both ways" in done.stdout
    assert "overlap (scale 10, shift -15)" in done.stdout


def test_all_scores_are_a_line_each_on_a_narrow_terminal(folder):
    done = run(folder, "--scores", "all", width=80)
    assert done.exit_code == 0, done.stderr
    table = done.stdout.splitlines()[2:]
    for name in ("average_l2", "kl", "match_prob", "w2"):
        assert len([line for line in table if line.startswith(f"{name} ")]) == 1
    words = next(line for line in table if line.startswith("kl ")).split()
    assert len(words) == 8, "no cell is cut or wrapped"
    assert words[-3:] == ["32", "128", "32"]
    assert "csd_prob: this model has not learned its scale" in done.stderr


def test_values_of_every_query_are_written(folder, tmp_path):
    done = run(folder, "--out", tmp_path / "values")
    assert f"wrote {tmp_path / 'values'}" in "".join(done.stdout.split("\n"))
    found = Evaluation.load(tmp_path / "values" / "overlap.npz")
    assert len(found.t2i.values["recall@1"]) == 48


@pytest.mark.parametrize(
    ("args", "message"),
    [(["--split", "tset"], 'no split "tset", it has train, val, test'), (["--scores", "meen"], 'Did you mean "mean"')],
)
def test_mistakes_are_explained(folder, args, message):
    done = run(folder, *args)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_an_impossible_folder_is_said_before_the_work(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("pcme.evaluation.evaluate", lambda *_, **__: pytest.fail("evaluate_score"))
    done = run(folder, "--out", tmp_path / "file")
    assert done.exit_code == 2
    assert "cannot be the results' folder" in " ".join(done.stderr.split())


def test_a_folder_that_is_no_run_is_said(tmp_path):
    done = run(tmp_path)
    assert done.exit_code == 2
    assert "not a model" in " ".join(done.stderr.split())
