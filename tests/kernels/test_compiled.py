"""Compiled loops against numpy."""

import numpy as np
import pytest

from pcme.kernels import compiled
from tests.kernels.pairs import assert_compiled_is_differentiable


def sides(q, g, dim, dtype, seed=0, spread=0.5):
    rng = np.random.default_rng(seed)
    draw = [
        (rng.standard_normal((n, dim)).astype(dtype), np.exp(rng.normal(0, spread, (n, dim))).astype(dtype))
        for n in (q, g)
    ]
    return draw[0], draw[1]


def direct(left, right):
    s = left[1][:, None].astype(np.float64) + right[1]
    return ((left[0][:, None].astype(np.float64) - right[0]) ** 2 / s).sum(-1), np.log(s).sum(-1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("q", "g", "dim"), [(1, 1, 1), (3, 127, 6), (2, 129, 8), (5, 300, 33)])
@pytest.mark.parametrize("threads", [1, 3])
def test_sums_equal_the_formula(dtype, q, g, dim, threads):
    left, right = sides(q, g, dim, dtype)
    m, log_sum = compiled.kernel_sums(compiled.pad(*left), compiled.pack(*compiled.pad(*right)), g, threads)
    expected = direct(left, right)
    close = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(m, expected[0], rtol=close)
    np.testing.assert_allclose(log_sum, expected[1], rtol=close, atol=close * dim)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_hold_at_the_edge_of_the_safe_range(dtype):
    edge = compiled.SAFE_LOG_VARIANCE[np.dtype(dtype)]
    for level in (-edge, edge):
        left, right = sides(2, 5, 8, dtype, spread=0.0)
        left, right = ((m, (v * np.exp(level)).astype(dtype)) for m, v in (left, right))
        m, log_sum = compiled.kernel_sums(compiled.pad(*left), compiled.pack(*compiled.pad(*right)), 5, 1)
        expected = direct(left, right)
        np.testing.assert_allclose(m, expected[0], rtol=1e-4)
        np.testing.assert_allclose(log_sum, expected[1], rtol=1e-4)


def test_an_items_sums_do_not_depend_on_its_neighbours():
    left, right = sides(4, 300, 20, np.float32)
    whole = compiled.kernel_sums(compiled.pad(*left), compiled.pack(*compiled.pad(*right)), 300, 2)
    some = np.array([299, 0, 128, 7])
    part = compiled.pad(right[0][some], right[1][some])
    alone = compiled.kernel_sums(compiled.pad(*left), compiled.pack(*part), 4, 1)
    for a, b in zip(whole, alone, strict=True):
        np.testing.assert_array_equal(a[:, some], b)


def test_gradients_are_finite_differences():
    left, right = sides(3, 4, 5, np.float64)
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))

    def total(mean, variance):
        m, log_sum = direct((mean, variance), right)
        return (weights[0] * m + weights[1] * log_sum).sum()

    found = compiled.kernel_gradients(left, right, weights, 2)
    for part in range(2):
        for i, d in ((0, 0), (1, 4), (2, 2)):
            step = np.zeros_like(left[0])
            step[i, d] = 1e-6
            moved = [[*left], [*left]]
            moved[0][part], moved[1][part] = left[part] + step, left[part] - step
            slope = (total(*moved[0]) - total(*moved[1])) / 2e-6
            assert found[part][i, d] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_pair_moments_equal_the_sums():
    left, right = sides(3, 50, 7, np.float32)
    ids = np.random.default_rng(0).integers(0, 50, (3, 11))
    s = left[1][:, None].astype(float) + right[1][ids]
    d2 = (left[0][:, None].astype(float) - right[0][ids]) ** 2
    expected = np.stack([s.sum(-1), (s * s).sum(-1), d2.sum(-1), (d2 * s).sum(-1)])
    np.testing.assert_allclose(compiled.pair_moments(left, right, ids, 2), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [3.0, 10.0, 40.0, 200.0])
@pytest.mark.parametrize(("dim", "log_sigma"), [(64, -3.0), (2, -1.0)])
def test_the_narrow_rule_equals_the_differentiable_one(scale, dim, log_sigma):
    assert_compiled_is_differentiable(scale, dim, log_sigma)
