"""pcme evaluate, as people and programs call it."""

import pytest

from pcme.evaluation import Evaluation
from tests.helpers import call, printed, record, refused


def test_programs_get_one_object_for_one_score_and_a_list_for_several(run_folder):
    found = record("evaluate", run_folder)
    assert set(found) == {"i2t", "t2i", "score", "queries", "gallery"}
    assert (found["score"], found["queries"], found["gallery"]) == ("overlap", 48, 12)
    for direction in ("i2t", "t2i"):
        names = {"r_precision", "recall@1", "recall@5", "recall@10", "map@r"}
        assert names <= set(found[direction])
        assert all(0 <= found[direction][name] <= 1 for name in names)
    assert [each["score"] for each in record("evaluate", run_folder, "--scores", "mean,csd")] == ["mean", "csd"]


def test_people_get_a_table_with_intervals(run_folder):
    text = printed("evaluate", run_folder)
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    assert text.startswith("aviary/test: 12 images, 48 captions")
    assert lines["R-Precision"].count("[") == 2
    assert {"PMRP, ζ = 2", "median rank"} <= set(lines)
    assert "RSUM of both ways" in text
    assert "overlap (scale 10, shift -15)" in text


def test_all_scores_are_a_line_each_on_a_narrow_terminal(run_folder):
    done = call("evaluate", run_folder, "--scores", "all", width=80)
    assert done.exit_code == 0, done.stderr
    table = done.stdout.splitlines()[2:]
    for name in ("average_l2", "kl", "match_prob", "w2"):
        assert len([line for line in table if line.startswith(f"{name} ")]) == 1
    words = next(line for line in table if line.startswith("kl ")).split()
    assert len(words) == 8, "no cell is cut or wrapped"
    assert words[-3:] == ["32", "128", "32"]
    assert "csd_prob: this model has not learned its scale" in done.stderr


def test_values_of_every_query_are_written_or_refused_before_the_work(run_folder, tmp_path, monkeypatch):
    text = printed("evaluate", run_folder, "--out", tmp_path / "values")
    assert f"wrote {tmp_path / 'values'}" in "".join(text.split("\n"))
    assert len(Evaluation.load(tmp_path / "values" / "overlap.npz").t2i.values["recall@1"]) == 48
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("pcme.evaluation.evaluate", lambda *_, **__: pytest.fail("evaluated"))
    assert "cannot be the results' folder" in refused("evaluate", run_folder, "--out", tmp_path / "file")
