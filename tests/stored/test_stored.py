"""Files of version 0.1 open, and say what they said when they were made: see make.py."""

import json
import math
import shutil

import pytest

import pcme
from pcme import recipes
from pcme.evaluation import Evaluation
from pcme.recipes.schema import from_record
from tests.helpers import record
from tests.stored import opened

RELATIVE = 1e-6
AGAIN = 1e-4
"""For what is trained again: other processors sum in another order."""


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def figures():
    return read(opened.FIGURES)


@pytest.fixture
def files(tmp_path):
    """A copy of all of them: nothing may be written to the stored ones."""
    return shutil.copytree(opened.FILES, tmp_path / "files")


def same(found, stored, rel=RELATIVE, where="", absolute=1e-9):
    """Like the stored value: floats nearly, all else exactly; dicts may have more keys by now."""
    if isinstance(stored, dict):
        assert stored.keys() <= found.keys(), where
        for key in stored:
            same(found[key], stored[key], rel, f"{where}.{key}", absolute)
    elif isinstance(stored, list):
        assert len(found) == len(stored), where
        for place, pair in enumerate(zip(found, stored, strict=True)):
            same(*pair, rel, f"{where}.{place}", absolute)
    elif isinstance(stored, float) and isinstance(found, float):
        close = math.isclose(found, stored, rel_tol=rel, abs_tol=absolute)
        assert close or (math.isnan(found) and math.isnan(stored)), f"{where}: {found}, {stored}"
    else:
        assert found == stored, where


def test_a_model_makes_the_same_of_the_same_items(files, figures):
    for model in (pcme.load(files / "model"), pcme.Model.from_pretrained(files / "hub")):
        same(opened.embedded(model), figures["embedded"], absolute=1e-6)


def test_a_model_has_the_same_figures_by_every_score(files, figures):
    same(opened.judged(files / "model"), figures["evaluation"])
    own = record("evaluate", files / "model")
    stored = figures["evaluation"]["overlap"]
    same(own, {name: stored[name] for name in ("i2t", "t2i", "score", "queries", "gallery")})


def test_the_values_of_every_query(files, figures):
    stored = Evaluation.load(files / "evaluation" / "overlap.npz")
    same(opened.figures_of(stored), figures["stored evaluation"])


def test_an_evaluation_is_written_as_it_was(files, tmp_path):
    record("evaluate", files / "model", "--out", tmp_path / "again")
    found, stored = (read(folder / "summary.json") for folder in (tmp_path / "again", files / "evaluation"))
    same(found, stored, absolute=1e-6)


@pytest.mark.parametrize("run", opened.RUNS)
def test_an_interrupted_run_goes_on_to_the_same_end(files, figures, run):
    stored = figures["resumed"][run]
    for line in stored["metrics"]:
        line.pop("kl", None)  # of weight 0 in this recipe, so no longer computed
    same(opened.resumed(run, files / run), stored, rel=AGAIN, absolute=AGAIN)


@pytest.mark.parametrize("name", opened.FRESH)
def test_the_same_draws_make_the_same_run(figures, tmp_path, name):
    found = opened.trained(name, tmp_path / "run")
    same(found, figures["trained"][name], rel=AGAIN, absolute=AGAIN)


def test_an_index_with_or_without_a_model_finds_the_same(files, figures):
    same(opened.searched(files / "index", files / "model"), figures["search"])
    for name, stored in figures["vectors"].items():
        same(opened.searched_by_vectors(files / name), stored)


@pytest.mark.parametrize("name", opened.INDEXES)
def test_an_index_is_whole_and_can_be_added_to(files, figures, name):
    same(opened.described(files / name), figures["described"][name])
    index = pcme.SearchIndex.open(files / name, files / "model" if name == "index" else None)
    assert index.verify().ok
    rows, dim = len(index), index.settings.dim
    index.add(pcme.Gaussian(*opened.gaussians(1, dim, seed=3)), ids=["another"])
    assert len(pcme.SearchIndex.open(files / name)) == rows + 1
    assert index.ids()[-1] == "another"


def test_the_command_line_prints_the_same_hits(files, figures):
    found = record(
        "search", files / "index", opened.TEXT, "--and", opened.ALSO, "--not", opened.UNWANTED,
        "--kind", "image", "--k", 5, "--model", files / "model",
    )  # fmt: skip
    stored = figures["search"]["combined"]
    same(found, {name: stored[name] for name in ("query", "hits")})


def test_a_confidence_means_the_same_and_is_written_as_it_was_read(files, figures, tmp_path):
    same(opened.understood(files / "model"), figures["confidence"])
    path = pcme.Confidence.load(files / "model").save(tmp_path / "again")
    assert read(path) == read(files / "model" / "confidence.json")


def test_a_model_is_calibrated_to_the_same(files, tmp_path):
    record("calibrate", files / "model", "aviary", "--out", tmp_path / "again")
    found, stored = (read(folder / "confidence.json") for folder in (tmp_path / "again", files / "model"))
    same(found, stored, rel=AGAIN)


def test_models_backbones_and_features_that_are_kept_are_known_again(files, figures, tmp_path):
    assert opened.digests(files / "model", tmp_path) == figures["digests"]
    assert opened.kept_features(files / "model", tmp_path / "cache") == figures["features"]


def test_weights_are_called_the_same_with_every_method(figures):
    same(opened.weight_names(), figures["weights"])


@pytest.mark.parametrize("path", sorted((opened.FILES / "analysis").iterdir()), ids=lambda p: p.stem)
def test_results_of_analyses(path):
    same(opened.analysed(path), read(path))


def test_analyses_come_to_the_same(files, monkeypatch):
    monkeypatch.chdir(files)
    record("analyze", "model", "all", "--numbers-only", "--out", "again")
    for path in sorted((files / "analysis").iterdir()):
        same(read(files / "again" / path.name), read(path), rel=AGAIN, where=path.stem, absolute=AGAIN)


def test_the_record_of_an_experiment_and_its_job(files, figures):
    same(opened.reproduced(files / "reproduce"), figures["reproduce"])


def test_every_recipe_reads_as_it_was():
    for name, stored in read(opened.RECIPES).items():
        same(from_record(stored).record(), stored, rel=0, where=name)
        assert name in recipes.names()


def test_the_demo_finds_the_same(tmp_path):
    same(opened.demonstrated(tmp_path / "run"), read(opened.TINY_DEMO), rel=AGAIN, absolute=AGAIN)
