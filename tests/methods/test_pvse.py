"""PVSE's three terms against plain loops."""

import math

import pytest
import torch

from pcme import methods
from pcme.errors import ConfigError, ShapeError
from pcme.methods.pvse import discrepancy, diversity
from tests.helpers import generator
from tests.methods.batches import EYE, MATCHES, cosine, cosines, points, several, triplet_loss, unit


@pytest.mark.parametrize("negatives", ["all", "hardest"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_diagonal_reproduces_the_original(k, negatives):
    """The authors' code: mean over B² of all hinges, or over B of the largest, both ways."""
    images, captions = several(k=k, seed=1), several(k=k, seed=2)
    method = methods.create("pvse", embeddings=k, negatives=negatives, positives="diagonal", warm_start=0.0)
    expected = triplet_loss(cosines(images, captions), EYE.tolist(), negatives, margin=0.1)
    terms = method.objective()(images, captions, MATCHES, generator())
    assert math.isclose(terms.values["rank"].item(), expected / (5 if negatives == "all" else 1), rel_tol=1e-9)
    assert set(terms.values) == ({"rank"} if k == 1 else {"rank", "diversity", "mmd"})


def test_diversity_against_a_loop():
    residuals = several(k=3, seed=1).residuals
    total = 0.0
    for item in residuals:
        pairs = [(item[i], item[j]) for i in range(3) for j in range(3) if i != j]
        total += math.sqrt(sum((cosine(x, y) / float(x.norm() * y.norm())) ** 2 for x, y in pairs)) / 9
    assert math.isclose(diversity(residuals).item(), total / 5, rel_tol=1e-9)


def test_mmd_against_a_loop():
    x, y = unit(4, 3, seed=1), unit(4, 3, seed=2)

    def mean(left, right):
        return sum(math.exp(-0.5 * float((a - b).norm())) for a in left for b in right) / 16

    expected = mean(x, x) - 2 * mean(x, y) + mean(y, y)
    assert math.isclose(discrepancy(x, y).item(), expected, rel_tol=1e-9)
    assert expected > 0


def test_the_terms_are_of_both_sides_and_the_weights_the_authors():
    images, captions = several(seed=1), several(seed=2)
    terms = methods.create("pvse").objective()(images, captions, MATCHES, generator())
    rank, spread, mmd = (terms.values[name].item() for name in ("rank", "diversity", "mmd"))
    assert math.isclose(spread, diversity(images.residuals).item() + diversity(captions.residuals).item())
    assert math.isclose(terms.total.item(), rank + 0.1 * spread + 0.01 * mmd, rel_tol=1e-6)


def test_the_score_is_the_order_of_the_best_cosines():
    images, captions = several(seed=1), several(seed=2)
    score = methods.create("pvse").objective().score()(images, captions)
    torch.testing.assert_close(score, 2 * torch.tensor(cosines(images, captions)).double() - 2)


def test_one_embedding_is_vsepp_with_another_margin():
    items = points(seed=1), points(seed=2)
    one = methods.create("pvse", embeddings=1, warm_start=0.0)
    other = methods.create("vse++", margin=0.1, warm_start=0.0)
    losses = [m.objective()(*items, MATCHES, generator()).total for m in (one, other)]
    assert torch.equal(*losses)
    assert one.heads(8) == other.heads(8)


def test_points_without_residuals_are_refused():
    with pytest.raises(ShapeError, match="K = 1"):
        methods.create("pvse").objective()(points(), points(), MATCHES, generator())


@pytest.mark.parametrize("wrong", [{"embeddings": 0}, {"margin": -0.1}, {"mmd_weight": -1.0}, {"negatives": "none"}])
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        methods.create("pvse", **wrong)
