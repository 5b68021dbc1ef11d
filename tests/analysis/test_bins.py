"""bins: means of bins against a loop, metrics against the whole matrix, and its limits."""

import numpy as np
import pytest

from pcme.analysis import Subject
from pcme.analysis.base import sides
from pcme.analysis.bins import BinsAnalysis, in_bins, query_metrics, rank_in_folds
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError
from pcme.evaluation import embed
from pcme.evaluation.protocols import protocol
from pcme.evaluation.readings import Folds
from pcme.retrieval import metrics
from tests.analysis.subjects import subject, untrained, world


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


@pytest.fixture(scope="module")
def folded():
    """A subject of 20 images in five folds of four, as COCO has five of 1,000."""
    dataset = world().subset(np.arange(20))
    of = Subject.of(untrained(), embed(untrained(), dataset, Problems()))
    vars(of)["protocol"] = protocol(dataset, [Folds(size=4)])
    return of


def test_bins_in_folds_are_the_mean_of_the_bins_of_every_fold(folded):
    """Paper: Fig. 6, COCO 1K: a query is asked in its fold, and is in a bin of its fold."""
    found = BinsAnalysis(bins=2, protocol="1k").compute(folded)
    truths = (folded.protocol.i2t, folded.protocol.t2i)
    score = folded.model.score()
    for queries, side, truth in zip(found.ways, sides(folded), truths, strict=True):
        bins = []
        for fold in truth.folds:
            matrix = score(side.queries[fold.queries.tolist()], side.gallery[fold.gallery.tolist()])
            recall = metrics.recall(matrix, fold.matches, 1)
            parts = np.array_split(np.argsort(side.log_sigma[fold.queries], kind="stable"), 2)
            bins.append([recall[part].mean() for part in parts])
        curve = next(each for each in queries.curves if each.metric == "recall@1")
        assert curve.mean == pytest.approx(np.mean(bins, axis=0))
        assert queries.queries == len(side.queries)
    whole = BinsAnalysis(bins=2).compute(folded)
    assert whole.ways[1].curves[0].mean != found.ways[1].curves[0].mean, "a smaller gallery is easier"


def test_ranks_in_folds_know_nothing_of_the_other_folds(folded):
    folds, widths = folded.protocol.t2i.folds, sides(folded)[1].log_sigma
    ranks = rank_in_folds(widths, folds)
    shifted = widths.copy()
    shifted[folds[0].queries] += 100
    np.testing.assert_array_equal(rank_in_folds(shifted, folds), ranks)
    for fold in folds:
        order = np.argsort(ranks[fold.queries])
        assert np.all(np.diff(widths[fold.queries][order]) >= 0)


def test_without_folds_or_with_another_protocol_it_is_refused():
    with pytest.raises(DataError, match=r"must have folds, got .*protocol=whole"):
        BinsAnalysis(protocol="1k").compute(subject())
    with pytest.raises(ConfigError, match="protocol: must be one of whole, 1k"):
        BinsAnalysis(protocol="5k")
