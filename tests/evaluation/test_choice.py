"""Scores that suit an embedding, with the parameters the model has learned."""

import pytest
import torch

from pcme import Points, scores
from pcme.errors import ConfigError
from pcme.evaluation import name_of
from pcme.evaluation.choice import chosen, suits
from tests.helpers import random_gaussians

GAUSSIANS = random_gaussians(3, 4, seed=0), random_gaussians(5, 4, seed=1)
POINT = Points(torch.ones(3, 1, 4)), Points(torch.ones(5, 1, 4))
POINTS = Points(torch.ones(3, 2, 4)), Points(torch.ones(5, 2, 4))


def names(found):
    return [name_of(score) for score in found.scores]


def test_without_a_wish_the_models_own_score_is_taken():
    own = scores.create("overlap", scale=3.0)
    found = chosen(None, own, *GAUSSIANS)
    assert (found.scores, found.notes) == ((own,), ())


def test_all_of_gaussians_are_all_there_are_and_keep_what_was_learned():
    own = scores.create("overlap", scale=3.0, shift=1.0)
    found = chosen("all", own, *GAUSSIANS)
    assert names(found) == scores.names()
    assert own in found.scores
    assert [note.partition(":")[0] for note in found.notes] == ["csd_prob", "match_prob"]
    assert "ranks as csd does" in found.notes[0]
    assert "10 and 10 are the paper's start" in found.notes[1]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (POINT, ["average_l2", "match_prob", "mean", "nearest"]),
        (POINTS, ["average_l2", "match_prob", "nearest"]),
    ],
)
def test_all_of_points_are_those_that_take_points(items, expected):
    found = chosen("all", scores.create("nearest"), *items)
    assert names(found) == expected
    for score in found.scores:
        assert score(*items).shape == (3, 5)
    assert found.notes[-1].startswith("left out, since they do not compare Points: bhattacharyya")
    assert all(
        name in found.notes[-1].split(": ")[1] for name in set(scores.names()) - set(expected)
    )


def test_names_may_be_a_list_or_text_with_aliases_and_repeats():
    own = scores.create("mean")
    assert names(chosen(" js, mean,jeffreys", own, *GAUSSIANS)) == ["jeffreys", "mean"]
    assert names(chosen(["kl"], own, *GAUSSIANS)) == ["kl"]


def test_probabilities_rank_as_their_notes_say():
    """So that their parameters do not matter."""
    images, captions = random_gaussians(40, 4, seed=2), random_gaussians(30, 4, seed=3)
    for name, like in (("overlap", "elk"), ("csd_prob", "csd")):
        left, right = (scores.create(each)(captions, images).double() for each in (name, like))
        assert torch.equal(left.argsort(1), right.argsort(1)), name


def test_mistakes_are_explained():
    own = scores.create("mean")
    with pytest.raises(ConfigError, match='Did you mean "mean"'):
        chosen("maen", own, *GAUSSIANS)
    with pytest.raises(ConfigError, match="no score was named"):
        chosen(",", own, *GAUSSIANS)
    message = '"kl" does not compare Points.*use one of: average_l2, match_prob, mean, nearest'
    with pytest.raises(ConfigError, match=message):
        chosen("mean,kl", own, *POINT)


def test_suits_does_not_hide_other_errors(monkeypatch):
    score = scores.create("mean")

    def broken(self, queries, gallery):
        raise ValueError("broken")

    monkeypatch.setattr(type(score), "plan", broken)
    with pytest.raises(ValueError, match="broken"):
        suits(score, *GAUSSIANS)
