"""The bootstrap: its ranks against sorted lists, its intervals against known spreads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pcme.analysis.bootstrap import estimated, mean, replicates, spearman
from pcme.errors import ShapeError


@given(st.integers(0, 10**6))
def test_the_ranks_of_a_draw_are_those_of_the_list_it_stands_for(seed):
    generator = np.random.default_rng(seed)
    x, y = generator.integers(0, 6, (2, 30)).astype(float)
    weights = generator.integers(0, 4, 30)
    listed = np.repeat(np.arange(30), weights)
    found = spearman(x, y)(weights.astype(float))
    if min(np.ptp(x[listed]), np.ptp(y[listed])) == 0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(stats.spearmanr(x[listed], y[listed]).statistic)


def test_a_constant_has_no_order_to_agree_with():
    assert np.isnan(spearman(np.ones(5), np.arange(5.0))(np.ones(5)))


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ShapeError, match="one length"):
        spearman(np.ones(3), np.ones(4))


def test_the_interval_of_a_mean_is_two_standard_errors_wide():
    values = np.random.default_rng(0).normal(size=400)
    found = estimated(mean(values), np.arange(400))
    expected = 1.96 * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert (found.high - found.low) / 2 == pytest.approx(expected, rel=0.1)


def test_copies_within_a_cluster_do_not_make_it_surer():
    values = np.random.default_rng(1).normal(size=50)
    alone = estimated(mean(values), np.arange(50))
    copied = estimated(mean(np.repeat(values, 20)), np.repeat(np.arange(50), 20))
    assert (copied.low, copied.high) == pytest.approx((alone.low, alone.high))


def test_one_cluster_says_nothing_of_others():
    found = estimated(mean(np.arange(4.0)), np.zeros(4, np.int64))
    assert found.value == 1.5
    assert np.isnan([found.low, found.high]).all()


def test_every_draw_has_as_many_clusters_as_there_are():
    sizes = replicates(lambda weights: weights.sum(), np.arange(12), resamples=20)
    assert sizes.shape == (20, 1)
    assert (sizes == 12).all()
