"""Eq. (2) on samples against loops over every pair of samples."""

import math

import pytest
import torch

from pcme import Gaussian, Points
from pcme.kernels import sampled
from tests.helpers import random_gaussians


def samples(n, k, dim, seed, dtype=torch.float64):
    return torch.randn(n, k, dim, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def loop_log_match(x, y, scale, shift, sign=1.0):
    out = torch.empty(len(x), len(y), dtype=x.dtype)
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            logs = [torch.nn.functional.logsigmoid(sign * (shift - scale * (u - v).norm())) for u in a for v in b]
            out[i, j] = torch.logsumexp(torch.stack(logs), 0) - math.log(len(logs))
    return out


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 2.0), (10.0, 10.0), (300.0, 5.0), (1.0, 120.0)])
@pytest.mark.parametrize(("j", "k"), [(1, 1), (3, 3), (2, 5)])
def test_log_match_equals_the_loop_at_any_logit(scale, shift, j, k):
    x, y = samples(3, j, 4, 0), samples(4, k, 4, 1)
    expected = loop_log_match(x, y, scale, shift)
    assert torch.allclose(sampled.log_match(x, y, scale, shift), expected, rtol=1e-9, atol=1e-12)


def test_float32_never_under_or_overflows():
    x, y = samples(3, 4, 4, 0, torch.float32), samples(4, 4, 4, 1, torch.float32)
    out = sampled.log_match(x * 50, y * 50, 30.0, 30.0)
    assert torch.isfinite(out).all()
    assert (out < -88).any()


@pytest.mark.parametrize("scale", [1.0, 10.0, 400.0])
def test_nll_equals_the_loop_for_matches_and_others(scale):
    x, y = samples(3, 3, 4, 0), samples(4, 2, 4, 1)
    sign = torch.tensor([[1, -1, 1, -1], [-1, -1, -1, 1], [1, 1, -1, -1]], dtype=torch.float64)
    a, b = torch.tensor(scale, dtype=torch.float64), torch.tensor(5.0, dtype=torch.float64)
    yes, no = (loop_log_match(x, y, scale, 5.0, s) for s in (1.0, -1.0))
    expected = -torch.where(sign > 0, yes, no)
    assert torch.allclose(sampled.pair_nll(x, y, sign, a, b), expected, rtol=1e-8, atol=1e-10)


def test_nll_gradients_reach_samples_scale_and_shift():
    inputs = [samples(2, 3, 4, 0).requires_grad_(), samples(3, 2, 4, 1).requires_grad_()]
    inputs += [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (2.0, 3.0)]
    sign = torch.tensor([[1.0, -1, -1], [-1, 1, 1]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x, y, a, b: sampled.pair_nll(x, y, sign, a, b), inputs, rtol=1e-4)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradient_weights_are_the_exact_form_of_equation_5(sign):
    """∂NLL/∂l = −w (1 − s(l)), w = s(l)/Σ s(l), for a match; w s(l), w = s(−l)/Σ s(−l), for none.

    So w is larger for nearer pairs of samples of a match, and for farther ones otherwise (docs/science/errata.md).
    """
    distances = torch.tensor([0.4, 0.9, 1.3], dtype=torch.float64)
    x = torch.zeros(1, 1, 1, dtype=torch.float64)
    y = distances.reshape(1, 3, 1).clone().requires_grad_()
    a, b, signs = (torch.tensor(v, dtype=torch.float64) for v in (3.0, 2.0, [[sign]]))
    sampled.pair_nll(x, y, signs, a, b).sum().backward()
    right = [1 / (1 + math.exp(-sign * (2 - 3 * d))) for d in distances.tolist()]
    weights = [s / sum(right) for s in right]
    assert weights == sorted(weights, reverse=sign > 0)
    by_logit = torch.tensor([-sign * w * (1 - s) for w, s in zip(weights, right, strict=True)], dtype=torch.float64)
    assert torch.allclose(y.grad.flatten(), -a * by_logit)


def test_coinciding_samples_have_a_finite_gradient():
    x = torch.zeros(2, 2, 3, requires_grad=True)
    one, ten = torch.ones(2, 2), torch.tensor(10.0)
    sampled.pair_nll(x, x, one, ten, ten).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_samples_depend_on_position_not_on_how_rows_are_cut():
    items = random_gaussians(50, 6, seed=0)
    whole = sampled.draw(items, slice(0, 50), 3, seed=5, side="query")
    for start, stop in ((0, 1), (7, 33), (16, 32), (45, 50)):
        for source in (items, Points(whole)):  # points are taken as they are
            part = sampled.draw(source, slice(start, stop), 3, seed=5, side="query")
            assert torch.equal(part, whole[start:stop])


def test_draws_of_both_sides_and_seeds_are_independent():
    """Between sides, between the chunks that share a stream, and within a chunk."""
    items = Gaussian(torch.zeros(40, 25), torch.zeros(40, 1))
    kinds = [(seed, side) for seed in (0, 1) for side in ("query", "item")]
    draws = [sampled.draw(items, slice(0, 40), 8, seed=seed, side=side) for seed, side in kinds]
    streams = torch.cat(draws).reshape(160, -1)
    correlation = torch.corrcoef(streams) - torch.eye(160)
    assert correlation.abs().max() < 5 / math.sqrt(streams.shape[1])


def test_draws_have_the_gaussians_moments():
    items = random_gaussians(4, 3, seed=0, log_sigma=-1.0)
    drawn = sampled.draw(items, slice(0, 4), 20_000, seed=0, side="item")
    error = items.sigma / math.sqrt(20_000)
    assert ((drawn.mean(1) - items.mean).abs() < 5 * error).all()
    assert torch.allclose(drawn.std(1), items.sigma, rtol=0.03)
