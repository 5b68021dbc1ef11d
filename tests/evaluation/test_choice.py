"""Scores that suit an embedding, with the parameters the model has learned."""

from dataclasses import dataclass

import pytest
import torch

from pcme import Points, scores
from pcme.errors import ConfigError
from pcme.evaluation.choice import Chosen, chosen
from pcme.scores.base import Score
from tests.helpers import random_gaussians

GAUSSIANS = random_gaussians(3, 4, seed=0), random_gaussians(5, 4, seed=1)
POINT = Points(torch.ones(3, 1, 4)), Points(torch.ones(5, 1, 4))
POINTS = Points(torch.ones(3, 2, 4)), Points(torch.ones(5, 2, 4))


def names(found):
    return [score.name for score in found.scores]


def test_all_of_gaussians_are_all_there_are_and_keep_what_was_learned():
    own = scores.create("overlap", scale=3.0, shift=1.0)
    assert chosen(None, own, *GAUSSIANS) == Chosen((own,))
    found = chosen("all", own, *GAUSSIANS)
    assert names(found) == scores.names()
    assert own in found.scores
    assert [note.partition(":")[0] for note in found.notes] == ["csd_prob", "match_prob"]
    assert "ranks as csd does" in found.notes[0]
    assert "the default is 10 and 10" in found.notes[1]


@pytest.mark.parametrize(
    ("items", "expected"),
    [(POINT, ["average_l2", "match_prob", "mean", "nearest"]), (POINTS, ["average_l2", "match_prob", "nearest"])],
)
def test_all_of_points_are_those_that_take_points(items, expected):
    found = chosen("all", scores.create("nearest"), *items)
    assert names(found) == expected
    for score in found.scores:
        assert score(*items).shape == (3, 5)
    assert found.notes[-1].startswith("left out, since they do not compare Points: bhattacharyya")
    assert all(name in found.notes[-1].split(": ")[1] for name in set(scores.names()) - set(expected))


def test_names_may_be_a_list_or_text_with_aliases_and_repeats():
    own = scores.create("mean")
    assert names(chosen(" js, mean,jeffreys", own, *GAUSSIANS)) == ["jeffreys", "mean"]
    assert names(chosen(["kl"], own, *GAUSSIANS)) == ["kl"]


def test_parameters_are_set_on_what_was_learned_and_spare_the_note():
    own = scores.create("match_prob", scale=3.0, shift=1.0)
    found = chosen("match_prob:method=sampled,samples=3,match_prob,overlap:scale=2,shift=0,overlap", own, *GAUSSIANS)
    sampled = scores.create("match_prob", scale=3.0, shift=1.0, method="sampled", samples=3)
    asked, default = scores.create("overlap", scale=2.0, shift=0.0), scores.create("overlap")
    assert found.scores == (sampled, own, asked, default)
    assert [note.partition(":")[0] for note in found.notes] == ["overlap"], "of the one whose scale is not set"
    with pytest.raises(ConfigError, match="does not compare Points"):
        chosen("match_prob:method=analytic", scores.create("nearest"), *POINT)
    assert chosen("match_prob:samples=3", scores.create("nearest"), *POINT).scores[0].method == "sampled"


@pytest.mark.parametrize(
    ("asked", "items", "message"),
    [
        ("maen", GAUSSIANS, 'Did you mean "mean"'),
        (",", GAUSSIANS, "no name"),
        ("mean,kl", POINT, '"kl": does not compare Points.*Use one of: average_l2, match_prob, mean, nearest'),
    ],
)
def test_mistakes_are_explained(asked, items, message):
    with pytest.raises(ConfigError, match=message):
        chosen(asked, scores.create("mean"), *items)


@pytest.fixture
def scaled(monkeypatch):
    """A score of a plugin, with a scale and no shift."""
    monkeypatch.setattr(scores.registry, "_classes", dict(scores.registry._classes))

    @scores.registry.register("scaled")
    @dataclass(frozen=True)
    class Scaled(Score):
        """-scale Σ|μ₁-μ₂|."""

        scale: float = 2.0

        def pairs(self, queries, gallery):
            return -self.scale * (queries.mean - gallery.mean).abs().sum(-1)


@pytest.mark.usefixtures("scaled")
def test_a_score_with_a_scale_and_no_shift_is_chosen_with_the_others():
    found = chosen("all", scores.create("mean"), *GAUSSIANS)
    assert "scaled" in names(found)
    assert "scaled: this model has not learned its scale; the default is 2" in found.notes
    assert "scaled" in chosen("all", scores.create("nearest"), *POINTS).notes[-1]
