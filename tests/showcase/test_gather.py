"""What the report says of a run."""

import shlex
from dataclasses import replace

import pytest

from pcme import recipes
from pcme.evaluation import evaluate
from pcme.showcase.gather import _beside, _training
from tests.training.trained import SHORT


def test_all_analyses_that_fit_and_the_figures_of_evaluate_are_there(report, sigma_run):
    assert [figure.name for figure in report.figures][:2] == ["truth", "calibration"]
    assert len({figure.name for figure in report.figures}) == len(report.figures)
    assert report.left_out == ()
    assert report.evaluation.record() == evaluate(sigma_run, split="val").results[0].record()


def test_a_run_without_sigma_has_what_it_can_have(points_report):
    assert [figure.name for figure in points_report.figures] == ["soft-weights", "toy"]
    assert any("needs a sigma" in text for text in points_report.left_out)
    assert not points_report.probability
    assert not points_report.has_sigma
    assert points_report.captions[0].expected is None


MU = ['method={"kind": "pcme-mu", "scale": 20}', "train_split=val"]


@pytest.mark.parametrize("recipe", [recipes.get("aviary"), SHORT.changed(["seed=3"]), SHORT.changed(MU)])
def test_the_command_trains_the_same_recipe_one_of_ones_own_from_its_file(recipe):
    words = shlex.split(_training(recipe, "runs/mine"))
    assert words[:2] == ["pcme", "train"]
    changes = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    seed = [f"seed={words[i + 1]}" for i, word in enumerate(words) if word == "--seed"]
    assert recipes.get(words[2]).changed([*changes, *seed]) == recipe
    own = recipes.get("aviary").changed(["name=mine"])
    assert _training(own, "runs/x") == "pcme train runs/x/recipe.json --out runs/x"


def test_the_papers_values_stand_beside_its_own_splits(report):
    assert _beside("val", report.evaluation) is None
    on_cub = replace(report.evaluation, dataset="cub/test")
    values = {name: theirs for name, theirs, _ in _beside("test", on_cub).values}
    assert values["i2t r_precision"] == 26.28
