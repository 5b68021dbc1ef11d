"""Compiled loops against numpy."""

import numpy as np
import pytest
import torch

from pcme.kernels import analytic, compiled
from tests.helpers import random_gaussians


def sides(q, g, dim, dtype, seed=0, spread=0.5):
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal((n, dim)).astype(dtype), np.exp(rng.normal(0, spread, (n, dim))).astype(dtype))
        for n in (q, g)
    ]


def sums(left, right, threads):
    packed = compiled.pack(*compiled.pad(*right))
    return compiled.kernel_sums(compiled.pad(*left), packed, len(right[0]), threads)


def direct(left, right):
    s = left[1][:, None].astype(np.float64) + right[1]
    return ((left[0][:, None].astype(np.float64) - right[0]) ** 2 / s).sum(-1), np.log(s).sum(-1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("q", "g", "dim"), [(1, 1, 1), (3, 127, 6), (2, 129, 8), (5, 300, 33)])
@pytest.mark.parametrize("threads", [1, 3])
def test_sums_equal_the_formula(dtype, q, g, dim, threads):
    left, right = sides(q, g, dim, dtype)
    close = 1e-5 if dtype == np.float32 else 1e-13
    for found, expected in zip(sums(left, right, threads), direct(left, right), strict=True):
        np.testing.assert_allclose(found, expected, rtol=close, atol=close * dim)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_hold_at_the_edge_of_the_safe_range(dtype):
    edge = compiled.SAFE_LOG_VARIANCE[np.dtype(dtype)]
    for level in (-edge, edge):
        left, right = sides(2, 5, 8, dtype, spread=0.0)
        left, right = ((m, (v * np.exp(level)).astype(dtype)) for m, v in (left, right))
        for found, expected in zip(sums(left, right, 1), direct(left, right), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_an_items_sums_do_not_depend_on_its_neighbours():
    left, right = sides(4, 300, 20, np.float32)
    some = np.array([299, 0, 128, 7])
    for whole, alone in zip(sums(left, right, 2), sums(left, (right[0][some], right[1][some]), 1), strict=True):
        np.testing.assert_array_equal(whole[:, some], alone)


def test_pair_moments_equal_the_sums():
    left, right = sides(3, 50, 7, np.float32)
    ids = np.random.default_rng(0).integers(0, 50, (3, 11))
    s = left[1][:, None].astype(float) + right[1][ids]
    d2 = (left[0][:, None].astype(float) - right[0][ids]) ** 2
    expected = np.stack([s.sum(-1), (s * s).sum(-1), d2.sum(-1), (d2 * s).sum(-1)])
    np.testing.assert_allclose(compiled.pair_moments(left, right, ids, 2), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [3.0, 10.0, 40.0, 200.0])
@pytest.mark.parametrize(("dim", "log_sigma"), [(64, -3.0), (2, -1.0), (64, -1.0)])
def test_the_narrow_rule_equals_the_differentiable_one(scale, dim, log_sigma):
    gaussians = [random_gaussians(n, dim, seed=n, log_sigma=log_sigma, dtype=torch.float64) for n in (6, 9)]
    (m1, v1), (m2, v2) = sides = [(items.mean, items.variance) for items in gaussians]

    def gather(flat):
        i, j = flat // 9, flat % 9
        return m1[i] - m2[j], v1[i] + v2[j]

    a, b = (torch.tensor(value, dtype=torch.float64) for value in (scale, 10.0))
    fast = analytic.score_pairs(analytic.Moments.of_sides(*sides), gather, a, b)
    assert torch.allclose(fast, analytic.log_match(*sides, a, b), rtol=1e-9, atol=1e-12)
