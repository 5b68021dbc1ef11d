"""Curves rise; the isotonic fit is that of a brute-force loop; tails keep their resolution."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import expit, log_expit, logit

from pcme.uncertainty.curve import AT_LEAST, HIGH, LOW, PER_UNIT, Histogram, fit_curve, log_odds
from tests.uncertainty.worlds import drawn, histogram


def merged(pools):
    """One pool [x, matching, pairs] of several."""
    pairs = sum(n for *_, n in pools)
    return [sum(x * n for x, _, n in pools) / pairs, sum(k for _, k, _ in pools), pairs]


def pooled(pools):
    """Pools in order, by looking again and again for a pair out of order."""
    while True:
        rates = [matching / pairs for _, matching, pairs in pools]
        wrong = [i for i in range(len(pools) - 1) if rates[i] >= rates[i + 1]]
        if not wrong:
            return pools
        pools[wrong[0] : wrong[0] + 2] = [merged(pools[wrong[0] : wrong[0] + 2])]


def joined(pools):
    """Pools taken together from the left until each has ten of either kind; the rest joins the last."""
    done, rest = [], []
    for pool in pools:
        rest.append(pool)
        _, matching, pairs = merged(rest)
        if min(matching, pairs - matching) >= AT_LEAST:
            done, rest = [*done, merged(rest)], []
    return [*done[:-1], merged([*done[-1:], *rest])]


@given(st.integers(0, 10_000), st.integers(2, 40))
def test_the_isotonic_fit_is_that_of_a_loop(seed, places):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.choice(np.arange(-40, 40), places, replace=False) / 4)
    pairs = rng.integers(1, 60, places)
    matching = rng.binomial(pairs, expit(x / 2))
    counted = Histogram()
    for odds, k, n in zip(x, matching, pairs, strict=True):
        counted.add(log_expit(np.full(n, odds)), np.arange(n) < k)
    # by chance so few may all match, or match the less, the higher they stand: not to be calibrated
    assume(0 < matching.sum() < pairs.sum() and np.cov(x, matching / pairs, fweights=pairs)[0, 1] > 0)
    curve = fit_curve(counted)
    expected = joined(pooled(list(zip(x, matching.tolist(), pairs.tolist(), strict=True))))
    np.testing.assert_allclose(curve.x, [point[0] for point in expected], atol=1e-9)
    rates = [np.clip(k, 0.5, n - 0.5) / n for _, k, n in expected]
    np.testing.assert_allclose(curve.y, logit(rates), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_a_line_in_log_odds_is_found(method):
    x, truth = drawn(400_000, 0, true=lambda x: 0.5 * x - 1)
    curve = fit_curve(histogram(x, truth), method)
    at = np.linspace(-4.5, 4.5, 9)
    np.testing.assert_allclose(curve(at), 0.5 * at - 1, atol=0.15)
    assert math.isclose(curve.slope, 0.5, rel_tol=0.02)
    assert (len(curve.x) == 1) is (method == "platt")


def test_rates_of_one_in_a_million_are_told_apart():
    counted, at = histogram(np.zeros(1000), np.arange(1000) < 500), np.array([-40.0, -12.0, 0.0])
    for odds, matching in zip(at[:2], (12, 200), strict=True):
        bin_ = int((odds - LOW) * PER_UNIT)
        counted.count[bin_], counted.true[bin_], counted.total[bin_] = 2_000_000, matching, 2_000_000 * odds
    np.testing.assert_allclose(expit(fit_curve(counted)(at)), [6e-6, 1e-4, 0.5])


@given(st.integers(0, 1000), st.sampled_from(["isotonic", "platt"]))
def test_a_fitted_curve_rises_everywhere(seed, method):
    curve = fit_curve(histogram(*drawn(2000, seed)), method)
    y = curve(np.linspace(LOW, HIGH, 5000))
    assert np.all(np.isfinite(y) & (np.diff(y, prepend=-np.inf) > 0))


@given(st.floats(-60, 30))
def test_log_odds_undo_the_log_of_the_logistic_and_end_at_the_ends(x):
    assert math.isclose(float(log_odds(log_expit(x))), x, rel_tol=1e-6, abs_tol=1e-6)
    assert log_odds(np.array([-1e6, -np.inf, 0.0])).tolist() == [LOW, LOW, HIGH]
