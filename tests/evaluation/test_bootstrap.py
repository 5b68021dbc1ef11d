"""Bootstrap intervals: against a loop that draws clusters, and how often they hold the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pcme.core.random import numpy_stream
from pcme.errors import ShapeError
from pcme.evaluation import Direction, intervals
from pcme.evaluation.bootstrap import estimate, replicates, resample, spearman, weighted_mean
from tests.evaluation.splits import direction


def repeated(one, drawn):
    """The direction in which the queries of each drawn cluster stand as often as it was drawn."""
    kinds = np.unique(one.clusters)
    rows = np.concatenate([np.flatnonzero(one.clusters == kinds[i]) for i in drawn])
    values = {name: array[rows] for name, array in one.values.items()}
    return Direction(values, tuple(map(str, rows)), one.gallery, one.clusters[rows], one.folds[rows])


def test_each_replicate_is_the_figure_of_the_drawn_clusters():
    generator = np.random.default_rng(0)
    clusters = np.array([5, 5, 5, 2, 2, 7, 7, 7, 7, 9])
    recalls = generator.integers(0, 2, 10).astype(float)
    recalls[3] = np.nan
    ranks = generator.integers(1, 9, 10)
    values = {"rank": ranks, "1k rank": ranks, **{f"recall@{k}": recalls for k in (1, 5, 10)}}
    one = direction(values, clusters, folds=[0] * 5 + [1] * 5)
    names = list(one.metrics)
    assert {"1k median_rank", "rsum", "mean_rank", "recall@1"} <= set(names)
    drawn = numpy_stream(0, "bootstrap").integers(4, size=(50, 4))
    for row, clusters_drawn in zip(resample(one, names, replicates=50), drawn, strict=True):
        again = repeated(one, clusters_drawn)
        folds = {0, 1} & {*again.folds.tolist()}
        for value, name in zip(row, names, strict=True):
            if len(folds) > 1 or not name.startswith("1k"):
                assert value == pytest.approx(again.metric(name), nan_ok=True), name


def test_blocks_of_replicates_change_nothing(monkeypatch):
    generator = np.random.default_rng(0)
    one = direction({"rank": generator.integers(1, 9, 30)}, np.arange(30) // 3)
    whole = intervals(one)
    monkeypatch.setitem(resample.__globals__, "AT_ONCE", 100)
    assert intervals(one) == whole


def of_metric(values, clusters):
    return intervals(direction({"r_precision": values}, clusters))["r_precision"]


def of_mean(values, clusters):
    return estimate(weighted_mean(np.asarray(values, float)), np.asarray(clusters))


both = pytest.mark.parametrize("interval", [of_metric, of_mean])


@both
def test_whole_classes_are_drawn(interval):
    """Queries that are all alike within a class are worth as many as there are classes."""
    kinds = np.random.default_rng(1).random(20)
    wide = interval(np.repeat(kinds, 50), np.repeat(np.arange(20), 50))
    narrow = interval(np.repeat(kinds, 50), np.arange(1000))
    assert wide.value == narrow.value == pytest.approx(kinds.mean())
    assert wide.high - wide.low == pytest.approx(3.92 * kinds.std() / 20**0.5, rel=0.15)
    assert narrow.high - narrow.low < 0.25 * (wide.high - wide.low)


@both
@pytest.mark.parametrize(
    ("values", "clusters", "expected"),
    [
        ([0.1, 0.2, 0.3], [4, 4, 4], (0.2, np.nan, np.nan)),  # one cluster says nothing of others
        ([np.nan, np.nan], [1, 2], (np.nan, np.nan, np.nan)),  # nobody can answer
        ([1, 1, 1], [1, 2, 3], (1, 1, 1)),  # equal values have no spread
    ],
)
def test_ends_of_intervals_that_need_no_draw(interval, values, clusters, expected):
    span = interval(values, clusters)
    assert (span.value, span.low, span.high) == pytest.approx(expected, nan_ok=True)


def test_intervals_hold_the_truth_as_often_as_they_say():
    """95 % of 400 samples of 60 clusters, a little less for so few, within five standard errors."""
    generator = np.random.default_rng(2)
    held = 0
    for _ in range(400):
        values = np.repeat(generator.random(60), 3) + 0.2 * generator.standard_normal(180)
        one = direction({"r_precision": values}, np.repeat(np.arange(60), 3))
        span = intervals(one, replicates=300)["r_precision"]
        held += span.low <= 0.5 <= span.high
    assert held / 400 == pytest.approx(0.94, abs=0.055)


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


def test_a_constant_has_no_order_and_lists_of_different_lengths_are_refused():
    assert np.isnan(spearman(np.ones(5), np.arange(5.0))(np.ones(5)))
    with pytest.raises(ShapeError, match="one length"):
        spearman(np.ones(3), np.ones(4))


def test_every_draw_has_as_many_clusters_as_there_are():
    sizes = replicates(lambda weights: weights.sum(), np.arange(12))
    assert sizes.shape == (1000, 1)
    assert (sizes == 12).all()
