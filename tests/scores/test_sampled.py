"""Scores of points against loops and expectations."""

import pytest
import torch

from pcme import Points, scores
from tests.helpers import generator, random_gaussians


def points(n, k, seed):
    return Points(torch.randn(n, k, 5, generator=generator(seed), dtype=torch.float64))


@pytest.mark.parametrize(("j", "k"), [(1, 1), (2, 2), (4, 3)])
def test_nearest_against_a_loop(j, k):
    queries, gallery = points(4, j, seed=1), points(6, k, seed=2)
    expected = [[-min(float((a - b).square().sum()) for a in x for b in y) for y in gallery.x] for x in queries.x]
    found = scores.create("nearest")(queries, gallery)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    assert scores.create("nearest")(queries, queries).max() <= 0  # a copy is at no distance, not beyond it
    if j == k == 1:
        torch.testing.assert_close(scores.create("mean")(queries, gallery), found)


def test_records_and_scores_for_single_points():
    for name, single in (("nearest", scores.create("mean")), ("average_l2", scores.create("average_l2"))):
        assert scores.create(name).record() == {"kind": name, "samples": 7, "seed": 0}
        assert scores.create(name).for_single_points() == single


def test_the_nearest_of_more_samples_is_nearer():
    assert scores.create("nearest", samples=1).samples == 1
    queries, gallery = (random_gaussians(5, 4, seed=s, log_sigma=-1.0) for s in (1, 2))
    few, many = (scores.create("nearest", samples=n)(queries, gallery).mean() for n in (2, 50))
    assert many > few


def test_average_l2_is_the_mean_distance_of_the_points():
    queries, gallery = points(4, 2, seed=1), points(6, 3, seed=2)
    expected = -(queries.x[:, None, :, None] - gallery.x[None, :, None]).norm(dim=-1).mean((2, 3))
    torch.testing.assert_close(scores.create("average_l2")(queries, gallery), expected)


def test_average_l2_is_an_expected_distance():
    sides = [random_gaussians(n, 4, seed=n, log_sigma=-0.4, dtype=torch.float64) for n in (3, 4)]
    x, y = (side.sample(100_000, generator(5 + n)).x for n, side in enumerate(sides))
    distance = torch.stack([(x[q] - y[g]).norm(dim=-1) for q in range(3) for g in range(4)], 1)
    ours = torch.stack([scores.create("average_l2", samples=32, seed=s)(*sides).flatten() for s in range(40)])
    error = (ours.var(0) / len(ours) + distance.var(0) / len(distance)).sqrt()
    assert ((ours.mean(0) + distance.mean(0)).abs() < 5 * error).all()
