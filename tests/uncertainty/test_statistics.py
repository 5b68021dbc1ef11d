"""Calibration, separation and order against scipy, loops and known cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pcme.uncertainty.statistics import Calibration, auroc, rank_correlation

numbers = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=30)


@given(numbers, numbers)
def test_auroc_is_the_share_of_pairs_in_order(positive, negative):
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert math.isclose(auroc(np.array(positive), np.array(negative)), np.mean(pairs))


@given(st.integers(2, 40), st.integers(0, 1000))
def test_rank_correlation_is_scipys(size, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 9, (2, size)).astype(float)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert math.isnan(rank_correlation(x, y))
    else:
        assert math.isclose(rank_correlation(x, y), stats.spearmanr(x, y).statistic, abs_tol=1e-9)


def test_calibration_error_against_a_loop_and_in_blocks():
    rng = np.random.default_rng(0)
    p = rng.random((40, 30))
    truth = rng.random((40, 30)) < p**2
    whole, blocks = Calibration(bins=10), Calibration(bins=10)
    whole.add(p, truth)
    for rows in (slice(0, 7), slice(7, 40)):
        blocks.add(p[rows], truth[rows])
    expected = 0.0
    for low in np.arange(10) / 10:
        chosen = (p >= low) & (p < low + 0.1)
        expected += chosen.mean() * abs(p[chosen].mean() - truth[chosen].mean())
    assert math.isclose(whole.error, expected, rel_tol=1e-9)
    assert math.isclose(blocks.error, expected, rel_tol=1e-9)


def test_certainties_fall_into_the_outer_bins_and_empty_bins_are_left_out():
    certain, counted = Calibration(bins=4), Calibration(bins=4)
    certain.add(np.array([0.0, 1.0]), np.array([False, True]))
    assert (certain.count.tolist(), certain.error) == ([1, 0, 0, 1], 0)
    counted.add(np.array([0.1, 0.2, 0.9]), np.array([True, False, True]))
    assert counted.reliability == ((pytest.approx(0.15), 0.5, 2), (0.9, 1.0, 1))
