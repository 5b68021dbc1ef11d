"""pcme evaluate, as people and programs call it."""

import json

import numpy as np
import pytest

from pcme import recipes
from pcme.evaluation import Evaluation
from tests.data.formats import official
from tests.data.formats.test_coco import karpathy_entry
from tests.helpers import call, picture, printed, record, refused
from tests.models import build


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


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    """Karpathy's file, three test images and their objects as COCO publishes them."""
    root = tmp_path_factory.mktemp("coco")
    entries = [karpathy_entry(number, "test") for number in (7, 5, 6)]
    (root / "dataset_coco.json").write_text(json.dumps({"images": entries}))
    for entry in entries:
        picture(root / entry["filepath"] / entry["filename"], colour=(20 * entry["cocoid"], 90, 60))
    (root / "annotations").mkdir()
    seen = official.instances((5, 6, 7), [(7, 17), (7, 1, "crowd"), (5, 1)])
    (root / "annotations" / "instances_val2014.json").write_text(json.dumps(seen))
    return root


def test_what_a_run_has_exported_is_judged_as_the_run(coco, tmp_path):
    build(recipes.get("aviary-tiny").changed(['data={"kind": "coco"}']), spread=2.0).save(tmp_path / "run")
    for kind in ("image", "caption"):
        printed(
            "embed", tmp_path / "run", coco, "--split", "test", "--kind", kind, "--out", tmp_path / f"{kind}.parquet"
        )
    files = (tmp_path / "image.parquet", tmp_path / "caption.parquet")
    where = ("--data", "coco", "--data-root", coco)
    own = record("evaluate", tmp_path / "run", "--data-root", coco, "--out", tmp_path / "own")
    given = record("evaluate", "--embeddings", *files, *where, "--scores", "overlap", "--out", tmp_path / "given")
    assert given == own
    assert 0 < own["t2i"]["pmrp"] <= 1
    compared = record("compare", tmp_path / "own" / "overlap.npz", tmp_path / "given" / "overlap.npz")
    assert [each["difference"] for each in compared["differences"]] == [0, 0]
    several = record("evaluate", "--embeddings", *files, *where)
    assert [each["score"] for each in several] == ["mean", "csd", "match_prob"]


def test_a_matrix_of_scores_is_judged_without_a_model(coco, tmp_path):
    scores = np.random.default_rng(0).normal(size=(3, 15)).astype(np.float32)
    np.save(tmp_path / "m.npy", scores)
    text = printed("evaluate", "--scores-matrix", tmp_path / "m.npy", "--data", coco, "--out", tmp_path / "out")
    assert text.startswith("coco/test: 3 images, 15 captions")
    assert "by matrix (file m.npy)" in text
    assert "PMRP, ζ = 2" in text
    named = tmp_path / "images.txt", tmp_path / "captions.txt"
    named[0].write_text("6\n7\n5\n")
    named[1].write_text("\n".join(str(100 * image + n) for image in (7, 5, 6) for n in range(5)))
    np.save(tmp_path / "other.npy", scores[[2, 0, 1]])
    found = record("evaluate", "--scores-matrix", tmp_path / "other.npy", "--data", coco, "--ids", *named)
    assert found == record("evaluate", "--scores-matrix", tmp_path / "m.npy", "--data", coco)


def test_several_measures_of_points_are_a_line_each(coco, tmp_path):
    for name, count in (("images", 3), ("captions", 15)):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(count).normal(size=(count, 4)))
    files = (tmp_path / "images.npy", tmp_path / "captions.npy")
    done = call("evaluate", "--embeddings", *files, "--data", coco, "--scores", "cosine,mean", width=80)
    assert done.exit_code == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:4]] == ["cosine", "mean"]


def test_nothing_is_left_of_an_evaluation_that_is_refused(coco, tmp_path):
    np.save(tmp_path / "m.npy", np.full((3, 15), np.nan))
    words = ("evaluate", "--scores-matrix", tmp_path / "m.npy", "--data", coco, "--out", tmp_path / "out")
    assert "must not be NaN or +inf, got nan at image 0, caption 0" in refused(*words)
    assert [path.name for path in tmp_path.iterdir()] == ["m.npy"]
