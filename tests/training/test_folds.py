"""Cross-validation: a run per fold, judged on classes it never learns; resumed; refused before anything is written."""

import json
import statistics
from dataclasses import replace

import pytest

from pcme import recipes
from pcme.data.formats.cub import CUB
from pcme.data.layout import ClassFold
from pcme.errors import ConfigError, DataError
from pcme.evaluation import evaluate
from pcme.evaluation.open_run import open_run
from pcme.training import folds
from pcme.training.folds import Division, cross_validate, find_division
from tests.data.formats.birds import JUDGING, folded
from tests.training.trained import SMALL, TINY, Interrupt, Notes, same_run

RECIPE = recipes.get("cub").changed(SMALL)
STEPS = 4 * 3 * 10 // 4
"""Of a fold: four classes of three images, a pair of each class in a batch. Fewer without the held-out auk."""


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    return folded(tmp_path_factory.mktemp("birds"))


@pytest.fixture(scope="module")
def crossed(birds, tmp_path_factory):
    """(folder, outcome) of a cross-validation."""
    out = tmp_path_factory.mktemp("crossed") / "folds"
    return out, cross_validate(RECIPE, out, data_root=birds, workers=0)


def test_every_fold_is_a_run_on_its_classes_and_judged_on_its_others(birds, crossed):
    out, found = crossed
    assert [run.fold for run in found.runs] == [ClassFold(f"train{k}", f"val{k}") for k in JUDGING]
    for run in found.runs:
        subject = open_run(out / run.run, split=run.fold.val, data_root=birds, workers=0)
        changes = [f"train_split={run.fold.train}", f"validation.split={run.fold.val}"]
        assert subject.model.recipe == RECIPE.changed(changes)
        assert list(subject.dataset.classes.names) == JUDGING[int(run.run[-1])]
        (judged,) = evaluate(out / run.run / "last", split=run.fold.val, data_root=birds, workers=0).results
        for way in ("i2t", "t2i"):
            metrics = judged.direction(way).metrics
            assert run.figures[way] == pytest.approx({name: metrics[name] for name in run.figures[way]})
    assert found.division == Division(CUB(birds).folds, judging=5, repeated=1)


def test_the_record_has_mean_and_standard_deviation_of_every_metric(crossed):
    out, found = crossed
    record = json.loads((out / "folds.json").read_text())
    assert record == json.loads(json.dumps(found.record()))
    assert (record["format"], record["recipe"], record["seed"]) == ("pcme-folds-1", "cub", 0)
    shares = (0.1, 0.4, 0.7)
    runs = zip(found.runs, shares, strict=True)
    made = replace(found, runs=tuple(replace(run, figures={"i2t": {"r_precision": share}}) for run, share in runs))
    assert made.mean["i2t"]["r_precision"] == pytest.approx(0.4)
    assert made.deviation["i2t"]["r_precision"] == pytest.approx(statistics.stdev(shares)) == pytest.approx(0.3)


def test_one_that_was_cut_short_in_its_second_fold_goes_on_and_ends_the_same(birds, crossed, tmp_path, monkeypatch):
    out, found = crossed
    options = {"data_root": birds, "workers": 0}
    with pytest.raises(KeyboardInterrupt):
        cross_validate(RECIPE, tmp_path, reporter=Interrupt(STEPS + 4, KeyboardInterrupt), **options)
    assert {path.name for path in tmp_path.iterdir()} == {"fold1", "fold2"}
    with pytest.raises(ConfigError, match=r"fold1: holds a run at step .* Continue with --resume"):
        cross_validate(RECIPE, tmp_path, **options)
    opened, notes = [], Notes()
    monkeypatch.setattr(folds, "open_run", lambda run, **o: opened.append(run) or open_run(run, **o))
    assert cross_validate(RECIPE, tmp_path, resume=True, reporter=notes, **options) == found
    assert all(same_run(tmp_path / run.run, out / run.run) for run in found.runs)
    assert opened == [tmp_path / f"fold{k}" / "last" for k in (1, 2, 3)], "the best were chosen on what judges"
    assert "fold2: learns from train2, judged on val2" in notes.texts


def without_classes(self, split, problems, read=CUB.read):
    return replace(read(self, split, problems), classes=None)


def refused(recipe, tmp_path, error, match, **options):
    with pytest.raises(error, match=match):
        cross_validate(recipe, tmp_path / "out", workers=0, **options)
    assert not (tmp_path / "out").exists()


def test_data_without_folds_or_classes_or_images_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    refused(
        TINY, tmp_path, ConfigError, r"aviary: cross-validation needs folds .* train, val, test\. Leave --folds out"
    )
    birds = folded(tmp_path / "birds")
    with monkeypatch.context() as patch:
        patch.setattr(CUB, "read", without_classes)
        refused(RECIPE, tmp_path, ConfigError, "cub: cross-validation needs classes", data_root=birds)
    for name in JUDGING[3]:
        (birds / "images" / name).rename(tmp_path / name)
    refused(RECIPE, tmp_path, DataError, "cub/val3: nothing that can be used", data_root=birds)
    for k in (2, 3):
        (birds / "splits" / f"valclasses{k}.txt").unlink()
    refused(RECIPE, tmp_path, ConfigError, "cub: cross-validation needs folds .* val1", data_root=birds)


def test_the_folds_are_asked_of_the_dataset(birds):
    assert find_division(RECIPE, birds).note == "5 classes judge, 1 of them in more than one fold"
