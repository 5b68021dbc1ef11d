"""bins: means of bins against a loop, metrics against the whole matrix, and its limits."""

import numpy as np
import pytest

from pcme.analysis.base import sides
from pcme.analysis.bins import BinsAnalysis, in_bins, query_metrics
from pcme.errors import DataError
from pcme.retrieval import metrics
from tests.analysis.subjects import subject


def queries(count):
    generator = np.random.default_rng(0)
    widths = generator.normal(size=count)
    values = {name: generator.random(count) for name in ("recall@1", "r_precision")}
    return widths, values


def test_bins_against_a_loop():
    widths, values = queries(61)
    found = in_bins("t2i", widths, values, np.arange(61), 4)
    order = sorted(range(61), key=lambda i: widths[i])
    sizes = [16, 15, 15, 15]
    for number, size in enumerate(sizes):
        own, order = order[:size], order[size:]
        assert found.width[number] == pytest.approx(np.median(widths[own]))
        for curve in found.curves:
            assert curve.mean[number] == pytest.approx(values[curve.metric][own].mean())
            assert curve.low[number] <= curve.mean[number] <= curve.high[number]


def test_what_falls_with_sigma_is_minus_one_over_bins_and_over_queries():
    widths = np.linspace(-3, -2, 100)
    values = {"recall@1": -widths, "r_precision": np.ones(100)}
    falling, constant = in_bins("i2t", widths, values, np.arange(100), 10).curves
    assert (falling.over_bins.value, falling.over_items.value) == pytest.approx((-1, -1))
    assert falling.over_bins.high < -0.95
    assert np.isnan([constant.over_bins.value, constant.over_items.value]).all()


def test_queries_without_an_answer_are_left_out():
    widths, values = queries(60)
    for part in values.values():
        part[:20] = np.nan
    found = in_bins("t2i", widths, values, np.arange(60), 4)
    rest = {name: part[20:] for name, part in values.items()}
    assert found == in_bins("t2i", widths[20:], rest, np.arange(20, 60), 4)
    assert found.queries == 40
    with pytest.raises(DataError, match="--set bins=2"):  # too few queries
        in_bins("t2i", widths[20:25], {"recall@1": widths[20:25]}, np.arange(5), 6)


def test_the_values_are_those_of_the_whole_matrix():
    of = subject()
    score, matches = of.model.score(), of.matches
    found = query_metrics(score, sides(of)[1])
    matrix = score(of.captions, of.images)
    np.testing.assert_array_equal(found["recall@1"], metrics.recall(matrix, matches, 1))
    np.testing.assert_array_equal(found["r_precision"], metrics.r_precision(matrix, matches))


def test_both_directions_are_there_and_counted_together():
    seen = []
    found = BinsAnalysis(bins=3).compute(subject(), lambda *step: seen.append(step))
    assert [(way.way, way.queries) for way in found.ways] == [("i2t", 24), ("t2i", 120)]
    assert len(found.numbers()) == 8
    assert seen == [("queries", 24, 144), ("queries", 144, 144)]
