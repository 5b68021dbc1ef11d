"""The decision that something matches holds its rate of false alarms, whatever the size."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from pcme.uncertainty.no_match import NoMatchRule, fit_no_match_rule
from tests.uncertainty.worlds import RULE

sizes = st.integers(1, 10**7)


def test_growth_is_that_of_the_tail_and_the_rate_holds_at_other_sizes():
    counts = np.array([250, 500, 1000])
    draws = np.random.default_rng(0).exponential(1.3, (2000, 1000)) - 5
    absent = np.stack([draws[:, :n].max(1) for n in counts])
    rule = fit_no_match_rule(counts, absent, absent[-1] + 9, false_alarm=0.1)
    assert rule.gallery == 1000
    assert rule.growth == pytest.approx(1.3, rel=0.1)
    below = np.random.default_rng(1).random(3000) ** (1 / 16_000)  # the best of 16,000 with this tail, drawn at once
    larger = -1.3 * np.log1p(-below) - 5
    assert (expit(larger) >= rule.threshold(16_000)).mean() == pytest.approx(0.1, abs=0.04)
    assert (expit(larger) >= rule.threshold()).mean() > 0.5  # the size ignored


def test_growth_is_of_queries_with_a_wrong_item_at_every_size_and_never_negative():
    absent = np.array([[-np.inf, 0.0], [-np.inf, 1.0]])
    rule = fit_no_match_rule(np.array([10, 20]), absent, np.array([3.0]), false_alarm=0.1)
    assert rule.growth == pytest.approx(1 / np.log(2))
    assert rule.absent == (1.0,) * len(rule.absent)
    for sizes in ([4, 8], [1]):
        absent = np.array([[1.0], [0.9]])[: len(sizes)]
        assert fit_no_match_rule(np.array(sizes), absent, np.zeros(1), false_alarm=0.1).growth == 0


@given(st.floats(0, 1), st.floats(0, 1), sizes)
def test_a_better_hit_is_the_more_rarely_a_false_alarm(p, q, size):
    low, high = sorted([p, q])
    assert 0 <= RULE.alarm(high, size) <= RULE.alarm(low, size) <= 1


@given(sizes, sizes, st.floats(0, 1))
def test_more_items_and_fewer_alarms_ask_for_more(m, n, share):
    few, many = sorted([m, n])
    assert RULE.threshold(few, 1.0) - 1e-12 <= RULE.threshold(few, share) <= RULE.threshold(many, share)


def test_beyond_its_reach_the_threshold_stays_where_half_of_the_matches_are():
    reach = RULE.reach(0.5)
    assert reach == pytest.approx(1000 * np.exp((3.0 + 1.0) / 1.2))  # from -1, the median, to 3
    assert RULE.threshold(round(reach / 2), 0.5) < expit(3.0)
    assert RULE.threshold(round(reach * 2), 0.5) == pytest.approx(expit(3.0))
    assert RULE.alarm(RULE.threshold(10**7, 0.5), 10**7) > 0.9  # and the rate is not held there


def test_a_strict_rule_is_kept_and_a_reach_beyond_all_numbers_is_infinite():
    strict = NoMatchRule(1000, 1.0, (0.0, 8.0), (1.0, 3.0, 5.0), 0.1)  # few matches are as good
    assert strict.threshold() == strict.threshold(10**6) == pytest.approx(expit(7.2))
    assert strict.reach() == 1000
    assert NoMatchRule(1000, 0.0, (0.0, 1.0), (0.0, 1.0), 0.1).reach() == float("inf")
    assert replace(RULE, growth=1e-3).reach() == float("inf")  # without a warning


@given(sizes, st.floats(0.01, 0.99))
def test_the_threshold_has_the_rate_that_it_is_for(size, share):
    assert RULE.alarm(RULE.threshold(1000, share), 1000) == pytest.approx(share, abs=1e-6)
