"""Comparing runs: the permutation test against all sign flips, clusters, refusals."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from pcme import scores
from pcme.errors import ConfigError, DataError
from pcme.evaluation import Estimate, Evaluation, compare, compare_evaluations, evaluate_score, protocol
from pcme.evaluation.compare import checked_metric
from tests.evaluation.models import untrained
from tests.evaluation.splits import FOLDS_OF_4, direction, embeddings, toy


def evaluation(values, clusters=None, folds=None, name="r_precision"):
    one = direction({name: values}, clusters, folds)
    return Evaluation("toy/test", "csd", {}, one, one, "same")


def difference(left, right, metric="r_precision"):
    """The comparison of images as queries."""
    return compare_evaluations({"a": left, "b": right}, metric).differences[0]


def by_all_flips(left, right, clusters):
    """The exact p-value: every way in which clusters could change places."""
    kinds = sorted(set(clusters))
    known = ~np.isnan(left)
    gained = np.where(known, right - left, 0)
    sums = np.array([gained[np.array(clusters) == kind].sum() for kind in kinds])
    flips = [abs(np.dot(s, sums)) for s in itertools.product((-1, 1), repeat=len(kinds))]
    return np.mean(np.array(flips) >= abs(sums.sum()) - 1e-9)


def test_the_p_value_is_that_of_all_flips_of_clusters():
    generator = np.random.default_rng(0)
    clusters = [0, 0, 0, 4, 4, 2, 2, 5, 6, 6, 6, 7, 8, 8]
    left = generator.random(14)
    left[3] = np.nan
    right = left + 0.1 + 0.15 * generator.standard_normal(14)
    found = compare_evaluations({"a": evaluation(left, clusters), "b": evaluation(right, clusters)})
    exact = by_all_flips(left, right, clusters)
    assert 0.02 < exact < 0.5, "a case that says something"
    error = 5 * (exact * (1 - exact) / 10_000) ** 0.5
    for each in found.differences:
        assert each.p == pytest.approx(exact, abs=error)
        assert each.difference.value == pytest.approx(np.nanmean(right) - np.nanmean(left))
        assert each.adjusted == each.p
        assert each.difference.low < each.difference.value < each.difference.high


def test_runs_that_are_alike_are_rarely_told_apart():
    """p below 0.05 in one of twenty comparisons, within five standard errors of 200."""
    generator = np.random.default_rng(1)
    clusters = np.repeat(np.arange(25), 4)
    below = 0
    for _ in range(200):
        left, right = (np.repeat(generator.random(25), 4) + 0.3 * generator.random(100) for _ in range(2))
        below += difference(evaluation(left, clusters), evaluation(right, clusters)).p < 0.05
    assert below / 200 == pytest.approx(0.05, abs=5 * (0.05 * 0.95 / 200) ** 0.5)


def test_a_run_does_not_differ_from_itself():
    one = evaluation([0.2, 0.4, 1.0])
    assert (difference(one, one).difference, difference(one, one).p) == (Estimate(0, 0, 0), 1)


def test_folds_count_alike_whatever_their_size():
    name, folds = "1k recall@1", [0, 1, 1, 1, -1]
    left = evaluation([0, 0, 0, 0, np.nan], folds=folds, name=name)
    right = evaluation([1, 0, 0, 1, np.nan], folds=folds, name=name)
    each = difference(left, right, name)
    assert each.difference.value == pytest.approx((1 + 1 / 3) / 2)
    # of the four ways in which the two gains can be signed, two are as far from 0
    assert each.p == pytest.approx(0.5, abs=0.03)


def test_several_runs_are_compared_with_the_first_and_corrected_together():
    generator = np.random.default_rng(3)
    base = generator.random(40)
    runs = {
        "base": evaluation(base),
        "better": evaluation(base + 0.1 + 0.2 * generator.random(40)),
        "alike": evaluation(base + 0.1 * generator.standard_normal(40)),
    }
    found = compare_evaluations(runs)
    assert found.base == "base"
    assert [(each.run, each.direction) for each in found.differences] == [
        ("better", "i2t"), ("alike", "i2t"), ("better", "t2i"), ("alike", "t2i"),
    ]  # fmt: skip
    better, alike = found.differences[:2]
    assert better.adjusted == pytest.approx(2 * better.p)
    assert alike.adjusted == pytest.approx(max(alike.p, better.adjusted))
    assert better.p < 0.001 < alike.p


def test_rsum_and_mean_rank_are_compared_as_they_are_reported():
    dataset = toy(20, 5)
    images, captions = embeddings(dataset)
    rules = protocol(dataset, FOLDS_OF_4)
    runs = {n: evaluate_score(scores.create(n), images, captions, rules) for n in ("mean", "kl")}
    for metric in ("rsum", "mean_rank", "1k rsum", "1k pmrp", "pmrp@1", "map@r"):
        for each in compare_evaluations(runs, metric).differences:
            ways = [runs[name].direction(each.direction).metric(metric) for name in ("mean", "kl")]
            assert each.difference.value == pytest.approx(ways[1] - ways[0])
            assert 0 < each.p <= 1


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("median_rank", "is not a metric that can be compared"),
        ("rprecision", 'Did you mean "r_precision"'),
        ("accuracy", '"1k ".*"eccv ".*"cxc "'),
    ],
)
def test_metrics_that_are_no_mean_or_unknown_are_refused(metric, message):
    with pytest.raises(ConfigError, match=message):
        checked_metric(metric)


def test_metrics_that_were_not_evaluated_and_other_queries_are_refused():
    one = evaluation([0.2, 0.4])
    with pytest.raises(ConfigError, match=r"pmrp: not a metric .* Known: r_precision"):
        difference(one, one, "pmrp")
    with pytest.raises(DataError, match="a and b: must have the same queries, got toy/test with 9 images"):
        difference(one, replace(one, digest="other"))


def test_folders_and_files_are_compared(tmp_path):
    first, second = (untrained(tmp_path / str(seed), seed=seed) for seed in (0, 1))
    found = compare([first, second])
    assert list(found.results) == [str(first), str(second)]
    found.results[str(second)].save(tmp_path / "second.npz")
    again = compare([first, tmp_path / "second.npz"])
    assert [each.p for each in again.differences] == [each.p for each in found.differences]
    with pytest.raises(DataError, match="must have the same queries"):
        compare([tmp_path / "second.npz", first], split="val")
    for few in ([first], [first, first]):
        with pytest.raises(ConfigError, match="two or more different"):
            compare(few)


@pytest.mark.parametrize("metric", ["pmrp", "pmrp@1"])
def test_plausible_matches_by_different_labels_are_not_compared(metric):
    dataset = toy()
    first = evaluate_score(scores.create("csd"), *embeddings(dataset), dataset)
    other = replace(first, labels="another")
    with pytest.raises(DataError, match="a and b: must have the same labels"):
        difference(first, other, metric)
    assert difference(first, other, "recall@1").p == difference(first, first, metric).p == 1, "labels change no recall"
