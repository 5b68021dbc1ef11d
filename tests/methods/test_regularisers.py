"""Regularisers against torch, loops and what they are for."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pcme import Gaussian
from pcme.methods import regularisers
from pcme.methods.likelihood import overlap_energy
from pcme.methods.regularisers import (
    breadth,
    effective_matches,
    expected_uniformity,
    kl_to_standard_normal,
    spread_fit,
    uniformity,
    uniformity_sum,
)
from tests.helpers import generator
from tests.methods.batches import gaussians


def test_kl_is_that_of_torch():
    items = gaussians(seed=3)
    normal = torch.distributions.Normal(items.mean, items.sigma)
    standard = torch.distributions.Normal(torch.zeros(()).double(), torch.ones(()).double())
    expected = torch.distributions.kl_divergence(normal, standard).mean()
    assert torch.allclose(kl_to_standard_normal(items), expected)


def test_kl_of_an_isotropic_item_is_that_of_a_diagonal_one():
    items = gaussians(seed=3)
    one = Gaussian(items.mean, items.log_sigma[:, :1])
    all_of_them = Gaussian(one.mean, one.log_sigma.expand(-1, 4).clone())
    assert torch.allclose(kl_to_standard_normal(one), kl_to_standard_normal(all_of_them))


def test_uniformity_against_a_loop_and_its_order():
    x = gaussians(n=6, seed=4).mean
    pairs = [(i, j) for i in range(6) for j in range(i)]
    expected = math.log(sum(math.exp(-2 * float((x[i] - x[j]).square().sum())) for i, j in pairs) / len(pairs))
    assert math.isclose(float(uniformity(x)), expected, rel_tol=1e-9)
    assert float(uniformity(x)) < float(uniformity(x[:1].expand(6, 4).contiguous())) == 0.0


def test_uniformity_of_many_points_is_that_of_few(monkeypatch):
    x = gaussians(n=40, seed=5).mean.requires_grad_()
    values = []
    for few in (512, 8):
        monkeypatch.setattr(regularisers, "FEW", few)
        value = uniformity(x)
        values.append((value, torch.autograd.grad(value, x)[0]))
    assert torch.allclose(values[0][0], values[1][0])
    assert torch.allclose(values[0][1], values[1][1])


def test_the_printed_sum_against_a_loop():
    x = gaussians(n=5, seed=4).mean
    total = sum(math.exp(-2 * float((a - b).square().sum())) for a in x for b in x)
    assert math.isclose(float(uniformity_sum(x)), total, rel_tol=1e-9)


@pytest.mark.parametrize("isotropic", [False, True])
def test_expected_uniformity_is_that_of_all_samples(isotropic):
    """Monte Carlo: five standard errors of the mean over 20,000 draws of either item of a pair."""
    items = gaussians(n=4, seed=6)
    items = Gaussian(items.mean, items.log_sigma[:, :1] if isotropic else items.log_sigma)
    draws = [items.sample(20_000, generator(seed)).x for seed in (1, 2)]
    kernel = torch.exp(-2 * (draws[0][:, None] - draws[1][None]).square().sum(-1)).mean((0, 1))
    error = float(kernel.std() / len(kernel) ** 0.5 / kernel.mean())
    assert abs(float(expected_uniformity(items)) - math.log(float(kernel.mean()))) < 5 * error


def test_expected_uniformity_reaches_sigma_and_means_do_not():
    items = gaussians(n=4, seed=6)
    log_sigma = items.log_sigma.clone().requires_grad_()
    expected_uniformity(Gaussian(items.mean, log_sigma)).backward()
    assert (log_sigma.grad < 0).all()  # wider items lie apart


def test_the_fit_is_least_where_sigma_is_the_spread_of_the_matches():
    """With fixed means, the σ that `spread_fit` asks for is the RMS distance to the matches."""
    images, caption = gaussians(n=5, seed=1), gaussians(n=1, seed=2)
    matches = torch.tensor([[True], [True], [False], [True], [False]])
    points = Gaussian(images.mean, torch.full_like(images.mean, -20.0))
    log_sigma = caption.log_sigma.clone().requires_grad_()
    wanted = (images.mean[matches[:, 0]] - caption.mean).square().mean(0)
    at = Gaussian(caption.mean, (0.5 * wanted.log())[None].requires_grad_())
    gradient = torch.autograd.grad(spread_fit(overlap_energy(points, at), matches), at.log_sigma)[0]
    assert float(gradient.abs().max()) < 1e-6
    elsewhere = Gaussian(caption.mean, log_sigma)
    least, other = (spread_fit(overlap_energy(points, g), matches) for g in (at, elsewhere))
    assert least.item() < other.item()


def test_the_fit_against_a_loop_and_captions_without_a_match():
    energy = torch.arange(9.0).reshape(3, 3)
    matches = torch.tensor([[True, False, False], [True, True, False], [False, False, False]])
    assert spread_fit(energy, matches).item() == ((0 + 3) / 2 + 4) / 2
    assert spread_fit(energy, torch.zeros(3, 3, dtype=torch.bool)).item() == 0


@given(st.integers(1, 6), st.integers(1, 6))
def test_effective_matches_counts_equally_likely_items(likely, others):
    p = torch.cat([torch.full((1, likely), 0.3), torch.zeros(1, others)], 1)
    assert math.isclose(effective_matches(p).item(), likely, rel_tol=1e-5)


def test_effective_matches_of_nothing_is_finite():
    assert effective_matches(torch.zeros(2, 3)).tolist() == [1.0, 1.0]


def test_breadth_asks_for_wide_items_where_many_are_plausible():
    items = Gaussian(torch.zeros(2, 3), torch.full((2, 3), -2.0).requires_grad_())
    share = torch.tensor([0.9, 0.01])
    breadth(items, share, centre=-2.0, offset=torch.tensor(-1.0)).backward()
    wide, narrow = items.log_sigma.grad.sum(1).tolist()
    assert wide < 0 < narrow  # a step against the gradient widens the first, narrows the second
