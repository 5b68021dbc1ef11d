"""Bounds on the match probability: they hold for every pair, and are near it where all sums are known."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcme import Gaussian
from pcme.kernels import analytic, bounds
from tests.helpers import random_gaussians


def side(items):
    return items.mean, items.variance


def sums(queries, items):
    """Σ s, Σ s², Σ Δ² s − mean(s) Σ Δ² and max s of all pairs, written out."""
    s = queries.variance[:, None] + items.variance
    delta2 = (queries.mean[:, None] - items.mean).square()
    return s.sum(-1), s.square().sum(-1), (delta2 * s).sum(-1) - s.mean(-1) * delta2.sum(-1), s.amax(-1)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    dim=st.sampled_from([32, 128, 512]),
    log_sigma=st.floats(-5, -2),
    spread=st.floats(0, 0.6),
    scale=st.sampled_from([5.0, 10.0, 30.0]),
)
def test_upper_bound_is_never_below_any_farther_pair(seed, dim, log_sigma, spread, scale):
    query, items = (
        random_gaussians(n, dim, seed=seed + n, log_sigma=log_sigma, spread=spread, dtype=torch.float64)
        for n in (1, 40)
    )
    means = analytic.Moments.of_sides(side(query), side(items)).mean[0]
    a = torch.tensor(scale, dtype=torch.float64)
    values = analytic.log_match(side(query), side(items), a, a)[0]
    spreads, spreads2, uneven, widest = (part[0] for part in sums(query, items))
    extremes = spreads.min(), spreads.max(), spreads2.max(), uneven.max().clamp_min(0), widest.max()
    limits = bounds.Limits(*(value[None] for value in extremes), dim)
    order = means.argsort()
    for first in (0, 10, 39):
        bound = bounds.upper_log_match(means[order[first]][None], limits, a, a)
        assert bound[0] >= values[order[first:]].max() - 1e-12


def limits_of(queries, items):
    centre = items.mean.mean(0)
    extent = bounds.extent(items, centre)
    return bounds.Limits.of(bounds.extent(queries, centre), extent.amin(1), extent.amax(1), items.dim)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), dim=st.sampled_from([1, 7, 64]), spread=st.floats(0, 1))
def test_limits_hold_for_every_pair(seed, dim, spread):
    queries, items = (random_gaussians(n, dim, seed=seed + n, spread=spread, dtype=torch.float64) for n in (5, 9))
    limits, (spreads, spreads2, uneven, widest) = limits_of(queries, items), sums(queries, items)
    assert (limits.least_spread <= spreads.amin(1)).all()
    assert (limits.most_spread >= spreads.amax(1)).all()
    assert (limits.most_spread2 >= spreads2.amax(1)).all()
    assert (limits.most_uneven >= uneven.amax(1) - 1e-12).all()
    assert (limits.widest >= widest.amax(1)).all()


def test_limits_of_a_single_item_are_its_sums():
    """But for the rounding that they allow, and for Cauchy–Schwarz in the fourth."""
    queries, item = (random_gaussians(n, 20, seed=n, dtype=torch.float64) for n in (3, 1))
    limits, (spreads, spreads2, _, _) = limits_of(queries, item), sums(queries, item)
    for found in (limits.least_spread, limits.most_spread):
        torch.testing.assert_close(found, spreads[:, 0], rtol=2e-3, atol=0)
    v1, v2 = queries.variance, item.variance
    assert ((limits.most_spread2 / spreads2[:, 0] - 1).abs() < 0.3).all()
    torch.testing.assert_close(limits.most_spread2, (v1.norm(dim=1) + v2.norm()).square(), rtol=2e-3, atol=0)
    torch.testing.assert_close(limits.widest, v1.amax(1) + v2.max(), rtol=2e-3, atol=0)
    uneven = [(v - v.mean(1, keepdim=True)).norm(dim=1) for v in (v1, v2)]
    reach = (queries.mean - item.mean).norm(p=4, dim=1)
    torch.testing.assert_close(limits.most_uneven, reach.square() * sum(uneven), rtol=5e-3, atol=0)


def alike(dim, log_sigma, distance):
    """Two Gaussians of one σ at a distance, their limits and E Q."""
    mean = torch.zeros(2, dim, dtype=torch.float64)
    mean[1, 0] = distance
    both = Gaussian(mean, torch.full((2, dim), log_sigma, dtype=torch.float64))
    extent = bounds.extent(both, mean[0])
    limits = bounds.Limits.of(extent[:, :1], extent[:, 1], extent[:, 1], dim)
    return both, limits, analytic.Moments.of_sides(side(both[:1]), side(both[1:])).mean[0]


@pytest.mark.parametrize("distance", [0.2, 0.5, 1.0, 1.5])
@pytest.mark.parametrize(("dim", "log_sigma", "scale"), [(64, -3.0, 10.0), (512, -3.6, 10.0), (128, -3.0, 5.0)])
def test_the_bound_is_near_where_all_sums_are_known(dim, log_sigma, scale, distance):
    both, limits, mean = alike(dim, log_sigma, distance)
    a = torch.tensor(scale, dtype=torch.float64)
    value = analytic.log_match(side(both[:1]), side(both[1:]), a, a)[0]
    bound = bounds.upper_log_match(mean, limits, a, a)
    assert value <= bound <= value + 0.06


@pytest.mark.parametrize(("dim", "log_sigma", "finite"), [(64, -3.0, True), (1, -1.0, False), (4, 1.0, False)])
def test_there_is_no_bound_where_a_pair_may_be_wide(dim, log_sigma, finite):
    _, limits, mean = alike(dim, log_sigma, 0.5)
    a = torch.tensor(10.0, dtype=torch.float64)
    assert bounds.upper_log_match(mean, limits, a, a).isfinite().item() == finite
    assert bounds.upper_log_match(torch.zeros_like(mean), limits, a, a).isposinf().all()
