"""Evaluating a run: every score asked for, notes, and the files of results."""

import json

import numpy as np
import pytest

from pcme import data, load, recipes
from pcme.data.problems import Problems
from pcme.errors import ConfigError
from pcme.evaluation import Evaluation, embed, evaluate, evaluate_score
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


def test_other_splits_and_several_scores(tmp_path):
    report = evaluate(untrained(tmp_path), split="val", scores="mean,w2")
    assert [result.score for result in report.results] == ["mean", "w2"]
    assert {result.dataset for result in report.results} == {"aviary/val"}
    assert len({result.digest for result in report.results}) == 1


def test_everything_is_saved_with_intervals(tmp_path):
    report = evaluate(untrained(tmp_path / "run"), scores="mean,w2")
    report.save(tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["mean.npz", "summary.json", "w2.npz"]
    assert Evaluation.load(tmp_path / "out" / "w2.npz").record() == report.results[1].record()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary[1]["cost"]["space"] == "O(2N)"
    low, high = summary[0]["intervals"]["t2i"]["r_precision"]
    assert low <= summary[0]["t2i"]["r_precision"] <= high


def coco_folder(root):
    """Karpathy's layout with three test images and their objects."""
    entries = []
    for number in (7, 5, 6):
        name = f"COCO_val2014_{number:012}.jpg"
        picture(root / "val2014" / name)
        said = [{"raw": f"image {number}, {c}", "sentid": 10 * number + c} for c in range(5)]
        entry = {"filepath": "val2014", "filename": name, "cocoid": number, "split": "test"}
        entries.append({**entry, "sentences": said})
    (root / "dataset_coco.json").write_text(json.dumps({"images": entries}))
    objects = {
        "categories": [{"id": 1, "name": "person"}, {"id": 2, "name": "cat"}],
        "annotations": [{"image_id": n, "category_id": c} for n, c in ((7, 1), (5, 1), (6, 2))],
    }
    (root / "annotations").mkdir()
    (root / "annotations" / "instances_val2014.json").write_text(json.dumps(objects))
    return root


def test_a_part_of_coco_has_pmrp_and_says_what_it_lacks(tmp_path):
    root = coco_folder(tmp_path / "coco")
    recipe = recipes.get("aviary-tiny").changed(['data={"kind": "coco"}'])
    build(recipe).save(tmp_path / "run")
    report = evaluate(tmp_path / "run", data_root=root)
    kinds = [note.partition(":")[0] for note in report.notes]
    assert kinds == ["no 1K", "no ECCV Caption, no CxC"]
    (found,) = report.results
    assert found.t2i.ids[:2] == ("70", "71")
    assert found.t2i.values["chance"].tolist() == pytest.approx([1 / 3] * 15)
    assert np.isfinite(found.t2i.values["pmrp@0"]).all()
    assert found.i2t.clusters.tolist() == [0, 1, 2]


def test_a_wrong_score_is_refused_before_anything_is_embedded(tmp_path, monkeypatch):
    monkeypatch.setattr("pcme.data.aviary.dataset.Aviary.load", lambda *_: pytest.fail("loaded"))
    with pytest.raises(ConfigError, match='Did you mean "mean"'):
        evaluate(untrained(tmp_path), scores="maen")
