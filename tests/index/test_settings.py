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

POINT = Points(torch.zeros(1, 1, 4))


def test_points_among_gaussians_have_no_spread(fifty):
    index, items = fifty
    index.add(Points(items.mean[:1, None]), ids=["point"])
    for query in (items[0], Points(items.mean[:1, None])):
        assert index.search(query, k=1).ids == ["point"]  # as near as 00000, and narrower


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        (random_gaussians(1, 5, seed=0), ShapeError, "dimension 4, got 5"),
        (Gaussian(torch.full((1, 4), torch.nan), torch.zeros(1, 4)), DataError, "NaN or infinite"),
    ],
)
def test_embeddings_that_do_not_fit_are_errors(unchanged, items, error, message):
    with pytest.raises(error, match=message):
        unchanged[0].add(items, ids=["x"])


@pytest.fixture
def plugins(monkeypatch):
    """Two scores from outside the package, nothing but their formulas, registered for one test."""
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
    results = SearchIndex.open(tmp_path / "index").search_many(items[:3], k=5)
    assert [[int(name) for name in hits.ids] for hits in results] == best.ids.tolist()
    assert index.settings.score.cost(items).work is None


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize("name", ["overlap", "in_sigmas"])
def test_a_score_that_divides_by_sigma_is_refused_points(tmp_path, name):
    with pytest.raises(ShapeError, match=f"{name}.*divides by σ"):
        drawn(tmp_path / "index", score=name)[0].add(POINT, ids=["point"])


def test_a_score_must_be_registered_and_fit_the_spread():
    class Nameless(Score):
        def pairs(self, queries, gallery):
            return queries.mean.sum(-1)

    with pytest.raises(ConfigError, match=r"Nameless.*register"):
        Settings(4, "diagonal", Nameless())
    with pytest.raises(ConfigError, match="points have none"):
        Settings(4, "none", scores.create("overlap"))
    with pytest.raises(FormatError, match=r"here.*taxicab.*plugin"):
        Settings.from_json(settings("csd").to_json().replace('"csd"', '"taxicab"'), "here")


@pytest.mark.parametrize("name", ["average_l2", "nearest", "match_prob"])
def test_samples_of_gaussians_cannot_be_indexed(name):
    score = scores.create(name).suited_to(POINT)
    assert Settings(4, "none", score).score == score
    with pytest.raises(ConfigError, match=name):
        Settings(4, "diagonal", score)


def test_a_score_is_stored_by_name_and_parameters():
    stored = settings("csd_prob", scale=2.0).to_json()
    assert json.loads(stored)["score"] == {"kind": "csd_prob", "params": {"scale": 2.0, "shift": 5.0}}
    assert Settings.from_json(stored, "here") == settings("csd_prob", scale=2.0)
    for damage in ('"format_version":2', '"format_version":"new"', '"version":1'):
        with pytest.raises(FormatError, match="here"):
            Settings.from_json(stored.replace('"format_version":1', damage), "here")
