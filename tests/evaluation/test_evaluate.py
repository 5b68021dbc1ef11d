"""Evaluating a run: every score asked for, notes, and the files of results."""

import json

import pytest

from pcme import data, load, recipes
from pcme.data.problems import Problems
from pcme.errors import ConfigError
from pcme.evaluation import Evaluation, embed, evaluate, evaluate_score
from tests.data.formats.test_coco import karpathy_entry
from tests.evaluation.models import untrained
from tests.helpers import picture
from tests.models import build


def test_a_run_is_judged_on_its_test_split_by_its_own_score(tmp_path):
    folder = untrained(tmp_path / "run")
    seen = []
    report = evaluate(folder, progress=lambda *step: seen.append(step))
    (found,) = report.results
    model = load(folder)
    split = data.create("aviary", **model.recipe.data.params).load("test")
    embedded = embed(model, split, Problems())
    again = evaluate_score(model.score(), embedded.images, embedded.captions, split)
    assert found.record() == again.record()
    assert (found.dataset, found.score, found.gallery) == ("aviary/test", "overlap", 12)
    assert not report.problems
    assert {what for what, *_ in seen} == {"images", "captions", "scores: overlap"}
    assert all(done <= total for _, done, total in seen)


def test_several_scores_on_another_split_are_saved_with_intervals(tmp_path):
    report = evaluate(untrained(tmp_path / "run"), split="val", scores="mean,w2")
    about = [(result.score, result.dataset) for result in report.results]
    assert about == [("mean", "aviary/val"), ("w2", "aviary/val")]
    assert len({result.digest for result in report.results}) == 1
    report.save(tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["mean.npz", "summary.json", "w2.npz"]
    assert Evaluation.load(tmp_path / "out" / "w2.npz").record() == report.results[1].record()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary[1]["cost"]["space"] == "O(2N)"
    low, high = summary[0]["intervals"]["t2i"]["r_precision"]
    assert low <= summary[0]["t2i"]["r_precision"] <= high


def test_a_part_of_coco_says_what_it_lacks(tmp_path):
    entries = [karpathy_entry(number, "test") for number in (7, 5, 6)]
    (tmp_path / "dataset_coco.json").write_text(json.dumps({"images": entries}))
    for entry in entries:
        picture(tmp_path / entry["filepath"] / entry["filename"])
    build(recipes.get("aviary-tiny").changed(['data={"kind": "coco"}'])).save(tmp_path / "run")
    report = evaluate(tmp_path / "run", data_root=tmp_path)
    kinds = [note.partition(":")[0] for note in report.notes]
    assert kinds == ["no PMRP", "no 1K", "no ECCV Caption, no CxC"]
    (found,) = report.results
    assert found.t2i.values["chance"].tolist() == pytest.approx([1 / 3] * len(found.t2i))
    assert found.i2t.clusters.tolist() == [0, 1, 2]


def test_a_wrong_score_is_refused_before_anything_is_embedded(tmp_path, monkeypatch):
    monkeypatch.setattr("pcme.data.aviary.dataset.Aviary.load", lambda *_: pytest.fail("loaded"))
    with pytest.raises(ConfigError, match='Did you mean "mean"'):
        evaluate(untrained(tmp_path), scores="maen")


def test_scores_of_one_name_are_told_apart_by_their_parameters(tmp_path):
    report = evaluate(untrained(tmp_path / "run"), scores="ppk:rho=0.5,mean,ppk:rho=1")
    assert report.labels == ["ppk-rho=0.5", "mean", "ppk-rho=1.0"]
    report.save(tmp_path / "out")
    stored = Evaluation.load(tmp_path / "out" / "ppk-rho=1.0.npz")
    assert stored.parameters == {"rho": 1.0}
    assert stored.record() == report.results[2].record() != report.results[0].record()
