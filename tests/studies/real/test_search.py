"""The search for settings: on one fold of the validation classes, or the mean over all of them."""

import json
from argparse import Namespace

import pytest

from studies.real import __main__ as real
from studies.real.entries import STUDIES, candidates
from tests.data.formats.birds import folded

VSE0 = real.ENTRIES["VSE0"]
OTHER = {"row": "InfoNCE", "setting": {}, "figures": {}}


@pytest.fixture
def searched(tmp_path, monkeypatch):
    """The search of VSE0 on a small CUB, of which nothing is trained: (trials, runs)."""
    folded(tmp_path / "data" / "cub")
    monkeypatch.setenv("PCME_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(real, "SEARCHED", tmp_path / "search.json")
    (tmp_path / "search.json").write_text(json.dumps({"cub": [OTHER], "flickr8k": []}))

    def precision(run):
        """Better with the larger margin; known by the fold."""
        fold = next(change[-1] for change in run.changes if change.startswith("validation.split="))
        margin = next(change for change in run.changes if change.startswith("method.margin="))
        return int(fold) / 10 + (0.05 if margin.endswith("0.2") else 0.0)

    def figures(plan, run, seconds):
        return {"figures": {way: {"r_precision": precision(run), "recall@1": 0.5} for way in ("i2t", "t2i")}}

    runs = []

    def train_all(wanted, measure, save, *, workers):
        for run in wanted:
            runs.append(run)
            measure(run, 1.0)
            save()

    monkeypatch.setattr(real, "noted", figures)
    monkeypatch.setattr(real, "train_all", train_all)

    def search(name="cub", *, folds):
        real.search(Namespace(name=name, runs=tmp_path / "runs", folds=folds, only=["VSE0"], jobs=1))
        return json.loads((tmp_path / "search.json").read_text())["cub"], runs

    return search


def test_with_folds_a_setting_is_judged_by_its_mean_over_all_of_them(searched, tmp_path):
    trials, runs = searched(folds=True)
    settings = list(candidates(VSE0))
    assert trials[0] == OTHER, "other rows keep theirs"
    assert [trial["setting"] for trial in trials[1:]] == settings
    assert all(trial["folds"] == ["val1", "val2", "val3"] for trial in trials[1:])
    for trial in trials[1:]:
        expected = (0.1 + 0.2 + 0.3) / 3 + (0.05 if trial["setting"]["method.margin"] == 0.2 else 0.0)
        assert trial["figures"]["t2i"] == {"r_precision": pytest.approx(expected), "recall@1": 0.5}
    assert real.chosen("cub", "VSE0")["method.margin"] == 0.2
    assert len({run.folder for run in runs}) == len(runs) == 3 * len(settings)
    learnt = {change for run in runs for change in run.changes if change.startswith("train_split=")}
    assert learnt == {f"train_split=train{k}" for k in (1, 2, 3)}, "and no unseen class"


def test_without_them_it_is_the_studys_own_fold(searched, tmp_path):
    trials, runs = searched(folds=False)
    assert all("folds" not in trial for trial in trials)
    assert [trial["figures"]["i2t"]["r_precision"] for trial in trials[1:]] == [0.2, 0.25] * 2
    assert {run.changes[:2] for run in runs} == {STUDIES["cub"].choosing}
    first = next(iter(candidates(VSE0)))
    assert runs[0].folder == tmp_path / "runs" / "cub-search" / real.label("VSE0", first)


def test_data_without_folds_end_the_search_before_anything_is_trained(searched, tmp_path):
    (tmp_path / "data" / "flickr8k").mkdir()
    with pytest.raises(SystemExit, match="flickr8k: cross-validation needs folds"):
        searched("flickr8k", folds=True)
    assert json.loads((tmp_path / "search.json").read_text())["cub"] == [OTHER]


def test_a_mean_of_records_is_that_of_their_numbers():
    records = [
        {"i2t": {"a": 0.0, "b": 1.0}, "within": {"images": 0.5}},
        {"i2t": {"a": 1.0, "b": 4.0}, "within": {"images": 0.7}},
    ]
    assert real.mean_of(records) == {"i2t": {"a": 0.5, "b": 2.5}, "within": {"images": pytest.approx(0.6)}}
    assert real.mean_of(records[:1]) == records[0]
