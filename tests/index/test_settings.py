"""Settings: which embeddings fit an index, and which scores."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from pcme import Gaussian, Points, SearchIndex, scores
from pcme.errors import ConfigError, DataError, FormatError, ShapeError
from pcme.index.settings import Settings
from pcme.scores import Score
from tests.helpers import random_gaussians
from tests.index.worlds import drawn, settings


def test_points_among_gaussians_have_no_spread(tmp_path):
    index, items = drawn(tmp_path / "index")
    index.add(Points(items.mean[:1, None]), ids=["point"])
    query = Gaussian(items.mean[:1], items.log_sigma[:1])
    assert index.search(query, k=1).ids == ["point"]  # as near as 00000, and narrower
    assert index.search(Points(items.mean[:1, None]), k=1).ids == ["point"]


def test_points_do_not_go_with_densities(tmp_path):
    index, _ = drawn(tmp_path / "index", score="overlap")
    with pytest.raises(ShapeError, match="divides by σ"):
        index.add(Points(torch.zeros(1, 1, 4)), ids=["point"])
    with pytest.raises(ConfigError, match="points have none"):
        SearchIndex.create(tmp_path / "other", dim=4, score="overlap")


def test_embeddings_that_do_not_fit_are_errors(tmp_path):
    index, _ = drawn(tmp_path / "index")
    with pytest.raises(ShapeError, match="dimension 4, got 5"):
        index.add(random_gaussians(1, 5, seed=0), ids=["x"])
    broken = Gaussian(torch.full((1, 4), torch.nan), torch.zeros(1, 4))
    with pytest.raises(DataError, match="NaN or infinite"):
        index.add(broken, ids=["x"])
    assert len(index) == 50


# Scores from outside the package


@pytest.fixture
def plugins(monkeypatch):
    """Two scores with nothing but their formulas, registered for one test."""
    registry = scores.registry
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))

    @registry.register("taxicab")
    @dataclass(frozen=True)
    class Taxicab(Score):
        """-weight Σ|μ₁-μ₂|."""

        weight: float = 2.0

        def pairs(self, queries, gallery):
            return -self.weight * (queries.mean - gallery.mean).abs().sum(-1)

    @registry.register("in_sigmas")
    @dataclass(frozen=True)
    class InSigmas(Score):
        """-Σ|μ₁-μ₂|/σ₂."""

        divides_by_sigma: ClassVar[bool] = True

        def pairs(self, queries, gallery):
            return -((queries.mean - gallery.mean).abs() / gallery.sigma).sum(-1)


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("name", ["taxicab", "in_sigmas"])
def test_a_formula_alone_is_enough_for_an_index(tmp_path, name):
    index, items = drawn(tmp_path / "index", score=name)
    best = index.settings.score.topk(items[:3], items, k=5)
    hits = SearchIndex.open(tmp_path / "index").search_many(items[:3], k=5)
    assert [[int(i) for i in one.ids] for one in hits] == best.ids.tolist()
    assert index.settings.score.cost(items).work is None


@pytest.mark.usefixtures("plugins")
def test_a_score_that_divides_by_sigma_is_refused_points(tmp_path):
    index, _ = drawn(tmp_path / "index", score="in_sigmas")
    with pytest.raises(ShapeError, match=r"in_sigmas.*divides by σ"):
        index.add(Points(torch.zeros(1, 1, 4)), ids=["point"])


def test_an_index_of_an_unknown_score_asks_for_its_plugin():
    text = settings("csd").to_json().replace('"csd"', '"taxicab"')
    with pytest.raises(FormatError, match=r"here.*taxicab.*plugin"):
        Settings.from_json(text, "here")


def test_a_score_that_is_not_registered_is_refused():
    class Nameless(Score):
        def pairs(self, queries, gallery):
            return queries.mean.sum(-1)

    with pytest.raises(ConfigError, match=r"Nameless.*register"):
        Settings(4, "diagonal", Nameless())


@pytest.mark.parametrize("spread", ["diagonal", "none"])
def test_samples_of_gaussians_cannot_be_indexed(spread):
    for name in ("average_l2", "nearest", "match_prob"):
        score = scores.create(name).suited_to(Points(torch.zeros(1, 1, 4)))
        if spread == "none":
            Settings(4, spread, score)
        else:
            with pytest.raises(ConfigError, match=name):
                Settings(4, spread, score)


def test_a_score_is_stored_by_name_and_parameters():
    stored = settings("csd_prob", scale=2.0).to_json()
    assert json.loads(stored)["score"] == {"kind": "csd_prob", "params": {"scale": 2.0, "shift": 5.0}}
    assert Settings.from_json(stored, "here") == settings("csd_prob", scale=2.0)
