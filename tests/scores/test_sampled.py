"""The nearest of K × K points against a loop, and the scores it is the same as."""

import pytest
import torch

from pcme import Points, scores
from tests.helpers import random_gaussians


def points(n, k, seed, length=None):
    x = torch.randn(n, k, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Points(x if length is None else length * torch.nn.functional.normalize(x, dim=-1))


@pytest.mark.parametrize(("j", "k"), [(1, 1), (2, 2), (4, 3)])
def test_against_a_loop(j, k):
    queries, gallery = points(4, j, seed=1), points(6, k, seed=2)
    expected = [[-min(float((a - b).square().sum()) for a in x for b in y) for y in gallery.x] for x in queries.x]
    found = scores.create("nearest")(queries, gallery)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_for_points_of_length_one_it_is_the_best_cosine():
    queries, gallery = points(4, 2, seed=1, length=1), points(6, 2, seed=2, length=1)
    best = torch.einsum("qjd,gkd->qgjk", queries.x, gallery.x).amax((2, 3))
    torch.testing.assert_close(scores.create("nearest")(queries, gallery), 2 * best - 2)


def test_for_one_point_it_is_the_distance_of_the_means():
    queries, gallery = points(4, 1, seed=1), points(6, 1, seed=2)
    found, expected = (scores.create(name)(queries, gallery) for name in ("nearest", "mean"))
    torch.testing.assert_close(found, expected)


def test_a_copy_is_at_no_distance():
    items = points(3, 2, seed=1)
    assert bool((scores.create("nearest")(items, items) <= 0).all())


def test_the_nearest_of_more_samples_is_nearer():
    queries, gallery = (random_gaussians(5, 4, seed=s, log_sigma=-1.0) for s in (1, 2))
    few, many = (scores.create("nearest", samples=n)(queries, gallery).mean() for n in (2, 50))
    assert many > few
