"""One pass against plain loops over the whole score matrix, and against the metrics by hand."""

import numpy as np
import pytest
import torch

from pcme import Matches, Points, scores
from pcme.evaluation import evaluate_score, protocol, retrieval
from pcme.evaluation.passes import shares_matrix
from pcme.retrieval import metrics
from pcme.retrieval.plausible import RADII
from pcme.scores.plans import LiftedPlan
from tests.evaluation.splits import FOLDS_OF_4, embeddings, toy
from tests.helpers import random_gaussians

SCORE = scores.create("csd")


def test_the_short_form_is_the_metrics_of_the_score_and_captions_that_match_nothing_do_not_count():
    images, captions = random_gaussians(6, 4, seed=0), random_gaussians(9, 4, seed=1)
    matches = Matches.from_classes([0, 1, 2, 0, 1, 2, 0, 3, 3], np.arange(6) % 3)
    found, matrix = retrieval(SCORE, images, captions, matches), SCORE(captions, images).numpy()
    precision = metrics.r_precision(matrix, matches)
    assert np.isnan(precision[7:]).all()
    assert found["t2i"]["r_precision"] == pytest.approx(precision[:7].mean())
    assert found["i2t"]["recall@1"] == pytest.approx(np.nanmean(metrics.recall(matrix.T.copy(), matches.T, 1)))
    assert found["t2i"]["chance"] == pytest.approx(1 / 3)


def order(row):
    """Gallery ids by falling score, equal ones by id."""
    return sorted(range(len(row)), key=lambda i: (-row[i], i))


def judged(row, right):
    """Every figure of one query, from its scores and the set of right answers, by counting."""
    hits, count = [item in right for item in order(row)], len(right)
    found = {f"recall@{k}": any(hits[:k]) for k in (1, 5, 10)} | {"chance": count / len(row)}
    if not right:
        return dict.fromkeys((*found, "r_precision", "map@r", "rank"), np.nan)
    precisions = [sum(hits[: i + 1]) / (i + 1) for i in range(count) if hits[i]]
    best = {"r_precision": sum(hits[:count]) / count, "rank": hits.index(True) + 1}
    return found | best | {"map@r": sum(precisions) / count}


def plausible(row, own, others):
    """PMRP of one query for each ζ, among the items that have a label."""
    if not own.any():
        return [np.nan] * len(RADII)
    ranked = [item for item in order(row) if others[item].any()]
    found = []
    for radius in RADII:
        near = [int(np.abs(others[item] - own).sum()) <= radius for item in ranked]
        found.append(sum(near[: sum(near)]) / sum(near) if any(near) else np.nan)
    return found


def looped(matrix, dense, own, others):
    """{metric: values} of a score matrix, query by query."""
    rows = []
    for row, mask, label in zip(matrix.tolist(), dense, own, strict=True):
        shares = plausible(row, label, others)
        marks = {f"pmrp@{z}": share for z, share in zip(RADII, shares, strict=True)}
        rows.append(judged(row, set(np.flatnonzero(mask))) | marks | {"pmrp": np.mean(shares)})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def assert_same(found, expected):
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("classes", [0, 3])
def test_every_value_of_either_direction_is_that_of_a_loop(classes):
    dataset = toy(12, 3, classes=classes, density=0.3)
    dataset = dataset.matching_class() if classes else dataset
    assert not dataset.labelled.all(), "some image should have no label"
    images, captions = embeddings(dataset)
    found = evaluate_score(SCORE, images, captions, dataset)
    labels, owner = dataset.labels.values, dataset.caption_image
    truth = dataset.matches().dense()
    t2i = looped(SCORE(captions, images), truth, labels[owner], labels)
    i2t = looped(SCORE(images, captions), truth.T, labels, labels[owner])
    assert_same(found.t2i.values, t2i)
    assert_same(found.i2t.values, i2t)
    assert set(found.t2i.values) == set(t2i)


def test_folds_of_coco_are_the_same_metrics_within_each_fold():
    dataset = toy(20, 5, density=0.3)
    images, captions = embeddings(dataset)
    found = evaluate_score(SCORE, images, captions, protocol(dataset, FOLDS_OF_4))
    labels, owner = dataset.labels.values, dataset.caption_image
    truth, matrix = dataset.matches().dense(), SCORE(captions, images)
    means = []
    for fold in range(5):
        columns, rows = np.arange(4 * fold, 4 * fold + 4), np.flatnonzero(owner // 4 == fold)
        part = looped(matrix[rows][:, columns], truth[rows][:, columns], labels[owner[rows]], labels[columns])
        assert_same({k: found.t2i.values[f"1k {k}"][rows] for k in part}, part)
        means.append({name: np.nanmean(values) for name, values in part.items()})
    for name in ("recall@1", "r_precision", "pmrp", "pmrp@2"):
        expected = np.mean([mean[name] for mean in means])
        assert found.t2i.metrics[f"1k {name}"] == pytest.approx(expected)
    assert found.t2i.metrics["1k mean_rank"] == pytest.approx(np.mean([m["rank"] for m in means]))


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"evaluation.passes.ROWS": 7, "scores.plans.QUERY_ROWS": 7}, 15 + 3),  # no fold ends at a block's end
        ({"evaluation.passes.HELD_BYTES": 20 * 100 * 4 - 1}, 2),  # the matrix is too large to keep
    ],
)
def test_blocks_change_nothing_and_progress_counts_both_directions(monkeypatch, changes, count):
    dataset = toy(20, 5, density=0.3)
    images, captions = embeddings(dataset)
    rules = protocol(dataset, FOLDS_OF_4)
    whole = evaluate_score(SCORE, images, captions, rules)
    for name, value in changes.items():
        monkeypatch.setattr(f"pcme.{name}", value)
    steps = []
    parts = evaluate_score(SCORE, images, captions, rules, progress=lambda *step: steps.append(step))
    assert len(steps) == count
    assert {("queries", 100, 120), ("queries", 120, 120)} <= {*steps}
    for way in ("i2t", "t2i"):
        assert_same(parts.direction(way).values, whole.direction(way).values)


def test_no_block_is_scored_twice(monkeypatch):
    dataset = toy(20, 5)
    images, captions = embeddings(dataset)
    scored = []
    own = LiftedPlan.block

    def counted(self, rows, columns):
        scored.append(own(self, rows, columns))
        return scored[-1]

    monkeypatch.setattr(LiftedPlan, "block", counted)
    for name, times in (("csd", 1), ("kl", 2)):  # kl is another matrix from the other side
        scored.clear()
        evaluate_score(scores.create(name), images, captions, protocol(dataset, FOLDS_OF_4))
        assert sum(block.numel() for block in scored) == times * 20 * 100


@pytest.mark.parametrize("name", scores.names())
def test_a_score_that_is_kept_for_the_other_direction_is_the_same_there(name):
    images, captions = random_gaussians(60, 8, seed=0), random_gaussians(100, 8, seed=1)
    score = scores.create(name)
    there, back = score(captions, images), score(images, captions).T
    if shares_matrix(score, images):
        torch.testing.assert_close(there, back, rtol=2e-6, atol=1e-6)
    else:
        assert not torch.allclose(there, back, rtol=1e-3, atol=1e-3)


def test_points_are_not_sampled_so_one_matrix_serves_both_directions():
    drawn = torch.randn(7, 2, 3, generator=torch.Generator().manual_seed(0))
    images, captions = Points(drawn[:3]), Points(drawn[3:])
    for score in map(scores.create, ("nearest", "average_l2")):
        assert shares_matrix(score, images)
        torch.testing.assert_close(score(images, captions), score(captions, images).T)


def test_results_name_the_score_and_its_parameters():
    dataset = toy()
    found = evaluate_score(scores.create("csd_prob", scale=2.0), *embeddings(dataset), dataset)
    assert (found.score, found.parameters) == ("csd_prob", {"scale": 2.0, "shift": 5.0})
    assert found.dataset == "toy/test"
    assert (found.queries, found.gallery) == (20, 10)
