"""Quantiles stand for the numbers they were made of."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pcme.uncertainty.quantiles import quantiles, share_below, value_at

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50).map(np.array)


@given(numbers, numbers)
def test_shares_lie_from_0_to_1_and_rise_with_the_value(values, at):
    ends = [values.min() - 1, values.max() + 1]
    shares = share_below(quantiles(values), np.sort([*np.clip(at, *ends), *ends]))
    assert (shares[0], shares[-1]) == (0, 1)
    assert np.all(np.diff(shares) >= -1e-12)


def test_shares_are_those_of_the_numbers():
    values, at = np.random.default_rng(0).normal(size=20_000), np.linspace(-3, 3, 31)
    np.testing.assert_allclose(share_below(quantiles(values), at), [(values < x).mean() for x in at], atol=2e-3)
    np.testing.assert_allclose(share_below(quantiles(np.array([2.0, 2.0])), 2.0), 0.5)


@given(numbers, st.floats(0, 1))
def test_values_lie_within_the_numbers(values, share):
    value = value_at(quantiles(values), share)
    assert values.min() - 1e-6 <= value <= values.max() + 1e-6
