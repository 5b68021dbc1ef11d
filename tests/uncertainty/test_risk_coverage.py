"""Risk and coverage against a loop, whatever the order of ties."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pcme.uncertainty.risk_coverage import area, risk_by_coverage, risk_coverage

queries = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40)


def columns(pairs):
    sureness, right = zip(*pairs, strict=True)
    return np.array(sureness, np.float64), np.array(right)


@given(queries)
def test_risk_is_that_of_a_loop_over_the_groups_of_the_equally_sure(pairs):
    sureness, right = columns(pairs)
    wrong = []
    for value in sorted(set(sureness.tolist()), reverse=True):
        group = [not r for s, r in zip(sureness, right, strict=True) if s == value]
        wrong += [sum(group) / len(group)] * len(group)
    expected = [sum(wrong[: n + 1]) / (n + 1) for n in range(len(wrong))]
    np.testing.assert_allclose(risk_by_coverage(sureness, right), expected, atol=1e-12)
    np.testing.assert_allclose(area(sureness, right), np.mean(expected), atol=1e-12)


@given(queries, st.integers(0, 100))
def test_neither_the_order_nor_the_scale_of_sureness_matters(pairs, seed):
    sureness, right = columns(pairs)
    mixed = np.random.default_rng(seed).permutation(len(right))
    np.testing.assert_allclose(
        risk_by_coverage(np.exp(sureness[mixed]), right[mixed]), risk_by_coverage(sureness, right)
    )


@given(queries, st.floats(0.01, 1))
def test_a_threshold_answers_at_least_what_was_asked(pairs, coverage):
    sureness, right = columns(pairs)
    threshold = risk_coverage(sureness, right).covering(coverage)
    assert threshold.coverage >= coverage - 1e-9
    assert (sureness >= threshold.value).mean() >= coverage - 1e-9
    assert 0 <= threshold.risk <= 1


def test_perfect_sureness_has_no_risk_until_the_wrong_ones_come():
    sureness = np.arange(200.0)
    curve = risk_coverage(sureness, sureness >= 50)
    assert curve.covering(0.75).risk == 0
    assert curve.covering(1.0).risk == 0.25
    assert curve.risking(0.0).coverage == 0.75
    assert curve.risking(0.0).value == 50
