"""The analytic match probability against integrals that share nothing with it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from pcme.kernels import analytic
from studies.accuracy.imhof import chi_square_cdf, match_probability
from tests.helpers import random_gaussians
from tests.kernels.pairs import A, B, pair, probability


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
