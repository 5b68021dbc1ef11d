"""The analytic match probability against integrals that share nothing with it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from pcme.kernels import analytic, bounds
from studies.accuracy.imhof import chi_square_cdf, match_probability
from tests.helpers import random_gaussians

A, B = (torch.tensor(10.0, dtype=torch.float64) for _ in range(2))


def pair(dim, *, seed, distance, log_sigma=-3.6, spread=0.3):
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(dim)
    delta = distance * direction / np.linalg.norm(direction)
    s = sum(np.exp(2 * rng.normal(log_sigma, spread, dim)) for _ in range(2))
    return delta, s


def probability(delta, s, scale=A, shift=B, sign=1.0):
    zero = torch.zeros(1, len(delta), dtype=torch.float64)
    sides = (torch.as_tensor(delta)[None], torch.as_tensor(s)[None]), (zero, zero)
    return float(analytic.log_match(*sides, scale, shift, sign).exp())


def test_oracle_distribution_is_scipys_noncentral_chi_square():
    q = np.array([0.5, 2.0, 5.0, 11.0])
    ours = chi_square_cdf(np.array([0.7, 0.0, 1.1]), np.ones(3), q)
    assert ours == pytest.approx(stats.ncx2.cdf(q, 3, 0.7**2 + 1.1**2), abs=1e-9)


def test_oracle_in_one_dimension_is_plain_quadrature():
    def integrand(z):
        return stats.norm.pdf(z) / (1 + math.exp(10 * abs(0.4 + 0.5 * z) - 10))

    direct = integrate.quad(integrand, -9, 9, points=[-0.8], limit=200)[0]
    assert match_probability(np.array([0.4]), np.array([0.25]), 10, 10) == pytest.approx(direct, abs=1e-8)


def test_oracle_is_the_mean_of_many_samples():
    delta, s = pair(6, seed=3, distance=0.6, log_sigma=-1.5)
    z = delta + np.sqrt(s) * np.random.default_rng(0).standard_normal((400_000, 6))
    p = 1 / (1 + np.exp(10 * np.linalg.norm(z, axis=1) - 10))
    error = p.std() / math.sqrt(len(p))
    assert match_probability(delta, s, 10, 10) == pytest.approx(p.mean(), abs=5 * error)


@pytest.mark.parametrize("distance", [0.05, 0.3, 0.5, 0.7, 0.9, 1.2, 1.4])
def test_at_the_papers_spread_the_error_is_below_1e_4(distance):
    for seed in range(3):
        delta, s = pair(512, seed=seed, distance=distance)
        assert probability(delta, s) == pytest.approx(match_probability(delta, s, 10, 10), abs=1e-4)


def test_error_is_a_twentieth_of_seven_samples_error():
    ours, sampled = [], []
    generator = torch.Generator().manual_seed(0)
    for seed, distance in enumerate((0.1, 0.3, 0.5, 0.7, 0.9)):
        delta, s = pair(512, seed=seed, distance=distance)
        truth = match_probability(delta, s, 10, 10)
        ours.append(probability(delta, s) - truth)
        half = torch.as_tensor(s / 2).sqrt()
        for _ in range(40):
            x, y = (torch.randn(7, 512, generator=generator, dtype=torch.float64) for _ in "xy")
            gap = torch.as_tensor(delta) + x[:, None] * half - y[None] * half
            sampled.append(float(torch.sigmoid(10 - 10 * gap.norm(dim=-1)).mean()) - truth)
    assert np.sqrt(np.mean(np.square(ours))) < np.sqrt(np.mean(np.square(sampled))) / 20


@pytest.mark.parametrize(
    ("dim", "sigma", "distance", "limit"),
    [
        (1, 0.3, 0.5, 1e-4),
        (1, 2.0, 1.0, 1e-3),
        (2, 0.3, 1.0, 5e-3),
        (2, 2.0, 1.0, 1e-2),
        (4, 0.3, 0.5, 5e-3),
        (32, 0.1, 0.5, 5e-3),
    ],
)
def test_few_dimensions_stay_within_a_hundredth(dim, sigma, distance, limit):
    delta, s = pair(dim, seed=dim, distance=distance, log_sigma=math.log(sigma))
    assert probability(delta, s) == pytest.approx(match_probability(delta, s, 10, 10), abs=limit)


@pytest.mark.parametrize("distance", [0.0, 0.5, 1.0])
def test_one_huge_sigma_is_integrated_exactly(distance):
    delta, s = pair(512, seed=1, distance=distance)
    s[0] += 14.0
    truth = match_probability(delta, s, 10, 10)
    assert probability(delta, s) == pytest.approx(truth, abs=1e-4)


@settings(max_examples=50)
@given(
    dim=st.sampled_from([1, 2, 3, 8, 64]),
    log_sigma=st.floats(-13, 1.5),
    distance=st.floats(0, 3),
    scale=st.floats(0.5, 60),
    shift=st.floats(-20, 40),
)
def test_p_and_its_complement_sum_to_one(dim, log_sigma, distance, scale, shift):
    delta, s = pair(dim, seed=0, distance=distance, log_sigma=log_sigma)
    a, b = (torch.tensor(v, dtype=torch.float64) for v in (scale, shift))
    total = probability(delta, s, a, b) + probability(delta, s, a, b, -1.0)
    assert total == pytest.approx(1, abs=1e-6)


def test_vanishing_sigma_gives_the_plain_sigmoid():
    delta, s = pair(16, seed=0, distance=0.8, log_sigma=-20)
    assert probability(delta, s) == pytest.approx(1 / (1 + math.exp(10 * 0.8 - 10)), abs=1e-12)


@pytest.mark.parametrize("log_sigma", [-3.6, -1.0, 0.5])
def test_all_pairs_equal_pairs_one_by_one(log_sigma):
    sides = [
        (g.mean, g.variance)
        for g in (random_gaussians(n, 24, seed=n, log_sigma=log_sigma, dtype=torch.float64) for n in (5, 7))
    ]
    together = analytic.log_match(*sides, A, B)
    spread_out = (sides[0][0][:, None], sides[0][1][:, None])
    assert torch.allclose(together, analytic.log_match_pairs(spread_out, sides[1], A, B))


@pytest.mark.parametrize("scale", [3.0, 10.0, 40.0, 200.0])
@pytest.mark.parametrize(("dim", "log_sigma"), [(64, -3.0), (64, -1.0), (2, -1.0)])
def test_compiled_pass_equals_the_differentiable_one(scale, dim, log_sigma):
    sides = [
        (g.mean, g.variance)
        for g in (random_gaussians(n, dim, seed=n, log_sigma=log_sigma, dtype=torch.float64) for n in (6, 9))
    ]

    def gather(flat):
        i, j = flat // 9, flat % 9
        return sides[0][0][i] - sides[1][0][j], sides[0][1][i] + sides[1][1][j]

    a = torch.tensor(scale, dtype=torch.float64)
    moments = analytic.Moments.of_sides(*sides)
    fast = analytic.score_pairs(moments, gather, a, B)
    assert torch.allclose(fast, analytic.log_match(*sides, a, B), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("dim", "log_sigma", "close"), [(48, -3.0, 1e-6), (3, -0.7, 2e-3)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradients_reach_everything(dim, log_sigma, close, sign):
    # wide pairs: the ends of the integral are held fixed, which costs as much as the rule's error
    sides = [random_gaussians(n, dim, seed=n, log_sigma=log_sigma, dtype=torch.float64) for n in (2, 3)]
    inputs = [t.requires_grad_() for g in sides for t in (g.mean, g.log_sigma)]
    inputs += [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (6.0, 4.0)]

    def run(m1, l1, m2, l2, a, b):
        return analytic.log_match((m1, (2 * l1).exp()), (m2, (2 * l2).exp()), a, b, sign)

    assert torch.autograd.gradcheck(run, inputs, atol=close, rtol=1e-3)


@pytest.mark.parametrize("log_sigma", [-13.0, -6.0, 0.0, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coinciding_means_have_finite_values_and_gradients(log_sigma, dtype):
    mean = torch.zeros(2, 8, dtype=dtype, requires_grad=True)
    log = torch.full((2, 8), log_sigma, dtype=dtype, requires_grad=True)
    side = (mean, (2 * log).exp())
    out = analytic.log_match(side, side, A.to(dtype), B.to(dtype))
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(mean.grad).all()
    assert torch.isfinite(log.grad).all()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    dim=st.sampled_from([32, 128, 512]),
    log_sigma=st.floats(-5, -2),
    spread=st.floats(0, 0.6),
    scale=st.sampled_from([5.0, 10.0, 30.0]),
)
def test_upper_bound_is_never_below_any_farther_pair(seed, dim, log_sigma, spread, scale):
    query = random_gaussians(1, dim, seed=seed, log_sigma=log_sigma, spread=spread)
    items = random_gaussians(40, dim, seed=seed + 1, log_sigma=log_sigma, spread=spread)
    query, items = query.to(torch.float64), items.to(torch.float64)
    moments = analytic.Moments.of_sides((query.mean, query.variance), (items.mean, items.variance))
    a = torch.tensor(scale, dtype=torch.float64)
    values = analytic.log_match((query.mean, query.variance), (items.mean, items.variance), a, a)[0]
    s = query.variance + items.variance
    delta2 = (query.mean - items.mean).square()
    uneven = (delta2 * s).sum(1) - s.mean(1) * delta2.sum(1)
    limits = bounds.Limits(
        least_spread=s.sum(1).min()[None],
        most_spread=s.sum(1).max()[None],
        most_spread2=s.square().sum(1).max()[None],
        most_uneven=uneven.max().clamp_min(0)[None],
        widest=s.max()[None],
        dim=dim,
    )
    order = moments.mean[0].argsort()
    for place in (0, 10, 39):
        bound = bounds.upper_log_match(moments.mean[0, order[place]][None], limits, a, a)
        assert bound[0] >= values[order[place:]].max() - 1e-12
