"""Metrics against plain loops, worked examples, and the two libraries that compute the same."""

import itertools
import math

import numpy as np
import pytest
import torch
from eccv_caption import Metrics as ECCVCaption
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.retrieval import blocks
from pcme.retrieval.matches import Matches
from pcme.retrieval.metrics import chance, map_at_r, median_rank, precision, r_precision, recall
from pcme.retrieval.plausible import pmrp
from pcme.retrieval.ranking import Ranking
from tests.retrieval.worlds import SCORES, ordered

quick = settings(max_examples=30, deadline=None)

NAN, INF = math.nan, math.inf

# Which of SCORES are right, counting the ranks from 1:
#   query 0: {3, 2}       at ranks 2, 4         R = 2
#   query 1: {0, 1, 2}    at ranks 1, 2, 3      R = 3   (all tied)
#   query 2: {4, 3, 1, 5} at ranks 1, 4, 7, 8   R = 4
#   query 3: none
MATCHES = Matches.from_pairs([0, 0, 1, 1, 1, 2, 2, 2, 2], [3, 2, 0, 1, 2, 4, 3, 1, 5], (4, 8))

WORKED = [
    (lambda r, m: recall(r, m, 1), [0, 1, 1, NAN]),
    (lambda r, m: recall(r, m, 2), [1, 1, 1, NAN]),
    (lambda r, m: precision(r, m, 1), [0, 1, 1, NAN]),
    (lambda r, m: precision(r, m, 5), [2 / 5, 3 / 5, 2 / 5, NAN]),
    (r_precision, [1 / 2, 1, 2 / 4, NAN]),
    (map_at_r, [(1 / 2) / 2, 1, (1 / 1 + 2 / 4) / 4, NAN]),
    (median_rank, [2, 1, 1, NAN]),
]

# Labels of the same gallery. Hamming distances to 110 and to 001:
#   item           0    1    2    3    4    5    6    7
#   label        110  100  000  111  001  011  110  010
#   from 110       0    1    2    1    3    2    0    1     R = 2, 5, 7 for zeta = 0, 1, 2
#   from 001       3    2    1    2    0    1    3    2     R = 1, 3, 6
GALLERY_LABELS = [
    [1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1], [0, 1, 1], [1, 1, 0], [0, 1, 0],
]  # fmt: skip
QUERY_LABELS = [[1, 1, 0], [0, 0, 1]]
PLAUSIBLE = [SCORES[0], SCORES[2]]
# query 110, order 1 3 7 2 5 4 0 6: top 2 {1,3} has none of {0,6}; top 5 {1,3,7,2,5} has 1,3,7 of
#   {0,1,3,6,7}; top 7 {1,3,7,2,5,4,0} has six of the seven (not 4).
# query 001, order 4 6 2 3 0 7 1 5: top 1 is 4, right; top 3 {4,6,2} has 4,2 of {2,4,5};
#   top 6 {4,6,2,3,0,7} has 4,2,3,7 of {1,2,3,4,5,7}.
PMRP = {0: [0, 1], 1: [3 / 5, 2 / 3], 2: [6 / 7, 4 / 6]}


def loop(value, scores, mask):
    """value(relevance of the ranked items as 0s and 1s, R) per query, NaN without right answers."""
    rows = zip(np.asarray(scores).tolist(), np.asarray(mask).tolist(), strict=True)
    ranked = [[int(right[item]) for item in ordered(row)] for row, right in rows]
    return [value(hits, sum(hits)) if any(hits) else NAN for hits in ranked]


def loop_average_precision(hits, count):
    return sum(sum(hits[: i + 1]) / (i + 1) for i in range(count) if hits[i]) / count


ORACLES = {
    "recall": (lambda r, m: recall(r, m, 3), lambda hits, count: float(any(hits[:3]))),
    "precision": (lambda r, m: precision(r, m, 2), lambda hits, count: sum(hits[:2]) / 2),
    "r_precision": (r_precision, lambda hits, count: sum(hits[:count]) / count),
    "map_at_r": (map_at_r, loop_average_precision),
    "median_rank": (median_rank, lambda hits, count: hits.index(1) + 1),
}


def loop_pmrp(scores, query_labels, gallery_labels, radii, drop):
    values = []
    keep = [item for item, label in enumerate(gallery_labels) if any(label) or not drop]
    for row, query in zip(scores, query_labels, strict=True):
        order = [item for item in ordered(list(row)) if item in keep]
        distance = {i: sum(a != b for a, b in zip(query, gallery_labels[i], strict=True)) for i in keep}
        shares = []
        for radius in radii:
            right = {item for item in keep if distance[item] <= radius}
            shares.append(len(right & set(order[: len(right)])) / len(right) if right else NAN)
        values.append(sum(shares) / len(shares) if any(query) or not drop else NAN)
    return values


@st.composite
def problems(draw):
    """Scores with many ties, in both precisions, and any relation."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    values = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1.0, 2.0, 1e30])
    scores = draw(hnp.arrays(dtype, shape, elements=values))
    return scores, draw(hnp.arrays(np.bool_, shape))


@pytest.mark.parametrize(("metric", "expected"), WORKED)
@pytest.mark.parametrize("kind", [list, np.float32, torch.tensor, Ranking.from_scores])
def test_by_hand(metric, expected, kind):
    values = metric(kind(SCORES), MATCHES)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, expected, rtol=1e-15)


@pytest.mark.parametrize("kind", [list, np.float32, torch.tensor, Ranking.from_scores])
def test_pmrp_by_hand(kind):
    ranked = kind(PLAUSIBLE)
    for radius, expected in PMRP.items():
        for within in (radius, (radius,), [radius]):
            value = pmrp(ranked, QUERY_LABELS, GALLERY_LABELS, within=within)
            np.testing.assert_allclose(value, expected, rtol=1e-15)
    mean = np.mean(list(PMRP.values()), axis=0)
    np.testing.assert_allclose(pmrp(ranked, QUERY_LABELS, GALLERY_LABELS), mean, rtol=1e-15)


@pytest.mark.parametrize("name", ORACLES)
@quick
@given(problem=problems())
def test_metrics_equal_the_loops(name, problem):
    scores, mask = problem
    metric, oracle = ORACLES[name]
    expected = loop(oracle, scores, mask)
    matches = Matches.from_dense(mask)
    np.testing.assert_allclose(metric(scores, matches), expected, rtol=1e-14)
    np.testing.assert_allclose(metric(Ranking.from_scores(scores), matches), expected, rtol=1e-14)


@settings(max_examples=200, deadline=None)
@given(problem=problems())
def test_r_precision_is_1_exactly_where_all_positives_come_before_all_negatives(problem):
    """Paper: §4.1.1. Whatever the ties; and it is 1 for scores that are the truth itself."""
    scores, mask = problem
    values = r_precision(scores, Matches.from_dense(mask))
    for value, row, right in zip(values, scores.tolist(), mask.tolist(), strict=True):
        ranked = [right[item] for item in ordered(row)]
        positives_first = False not in ranked or True not in ranked[ranked.index(False) :]
        assert (value == 1) == (positives_first and any(right))
    perfect = r_precision(mask.astype(np.float64), Matches.from_dense(mask))
    np.testing.assert_array_equal(perfect, np.where(mask.any(1), 1, NAN))


@quick
@given(st.data(), st.booleans(), st.sampled_from([0, (0, 1, 2), (2, 0), (3,)]))
def test_pmrp_equals_the_loops(data, drop, within):
    scores, mask = data.draw(problems())
    bits = st.integers(0, 1)
    queries = data.draw(hnp.arrays(np.int64, (mask.shape[0], 3), elements=bits))
    gallery = data.draw(hnp.arrays(np.int64, (mask.shape[1], 3), elements=bits))
    queries[0] = gallery[0] = 1  # something must be left to rank
    radii = [within] if isinstance(within, int) else within
    expected = loop_pmrp(scores.tolist(), queries.tolist(), gallery.tolist(), radii, drop)
    for ranked in (scores, scores.T.copy().T, Ranking.from_scores(scores)):
        values = pmrp(ranked, queries, gallery, within=within, drop_unlabelled=drop)
        np.testing.assert_allclose(values, expected, rtol=1e-14)


@quick
@given(problems())
def test_a_truncated_ranking_that_is_deep_enough_gives_the_same(problem):
    scores, mask = problem
    matches = Matches.from_dense(mask)
    full = Ranking.from_scores(scores)
    for depth in range(1, mask.shape[1] + 1):
        head = Ranking.from_scores(scores, k=depth)
        np.testing.assert_array_equal(recall(head, matches, depth), recall(full, matches, depth))
        ranks = median_rank(full, matches)
        np.testing.assert_array_equal(median_rank(head, matches), np.where(ranks > depth, np.inf, ranks))
        if depth >= matches.counts.max():
            np.testing.assert_array_equal(r_precision(head, matches), r_precision(full, matches))
            np.testing.assert_array_equal(map_at_r(head, matches), map_at_r(full, matches))


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 50, (37, 90)).astype(np.float32)
    mask, labels = rng.random((37, 90)) < 0.2, rng.random((127, 6)) < 0.4
    queries, gallery = labels[:37], labels[37:]
    ranked = [scores, np.asfortranarray(scores), Ranking.from_scores(scores)]

    def values(source):
        relation = Matches.from_dense(mask)
        plain = [metric(source, relation) for metric, _ in ORACLES.values()]
        drops = [pmrp(source, queries, gallery, drop_unlabelled=drop) for drop in (False, True)]
        return np.array(plain + drops)

    expected = values(scores)
    for block in (1, 20_000, 2**24):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", block)
        for source in ranked:
            np.testing.assert_array_equal(values(source), expected)


def test_more_than_the_gallery_holds():
    matches = Matches.from_pairs([0], [1], (1, 2))
    for ranked in ([[2.0, 1.0]], Ranking.from_scores([[2.0, 1.0]])):
        assert recall(ranked, matches, 10).tolist() == [1]
        assert precision(ranked, matches, 10).tolist() == [0.1]


def test_chance_is_the_mean_over_all_orders():
    mask = np.array([[True, False, False, False], [True, True, False, True]])
    matches = Matches.from_dense(mask)
    orders = list(itertools.permutations([0.0, 1.0, 2.0, 3.0]))
    mean = np.mean([r_precision([order, order], matches) for order in orders], axis=0)
    np.testing.assert_allclose(chance(matches), mean, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_without_information_are_at_chance(dtype):
    """Seeded; a band of four standard errors fails by accident once in 16,000 seeds."""
    rng = np.random.default_rng(20)
    queries, gallery = rng.integers(0, 20, 3000), rng.integers(0, 20, 200)
    matches = Matches.from_classes(queries, gallery)
    scores = rng.standard_normal((3000, 200)).astype(dtype)
    labels = np.eye(20, dtype=int)
    for values in (
        r_precision(scores, matches),
        pmrp(scores, labels[queries], labels[gallery], within=0),
        precision(scores, matches, 7),
        recall(scores, matches, 1),
    ):
        error = values - chance(matches)
        assert abs(error.mean()) < 4 * error.std() / math.sqrt(len(error))


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda r: recall(r, MATCHES, 4), "recall@4: .* keeps 3 of 8 items, 4 are needed.* k=4"),
        (lambda r: recall(r, MATCHES, 50), "recall@50: .* 8 are needed. Rank with k=8"),
        (lambda r: precision(r, MATCHES, 4), "precision@4: .* 4 are needed"),
        (lambda r: r_precision(r, MATCHES), "R-Precision: .* 4 are needed"),
        (lambda r: map_at_r(r, MATCHES), "MAP@R: .* 4 are needed"),
    ],
)
@pytest.mark.parametrize("size", [8, None])
def test_rankings_that_are_too_short(metric, message, size):
    head = Ranking.from_scores(SCORES, k=3)
    with pytest.raises(DataError, match=message):
        metric(Ranking(head.ids, head.scores, gallery_size=size))


def test_a_ranking_too_short_for_pmrp():
    head = Ranking.from_scores(PLAUSIBLE, k=5)
    np.testing.assert_allclose(pmrp(head, QUERY_LABELS, GALLERY_LABELS, within=1), PMRP[1])
    with pytest.raises(DataError, match="PMRP: the ranking is too short, it keeps 5 of 8 items, 7 are needed"):
        pmrp(head, QUERY_LABELS, GALLERY_LABELS)
    six = Ranking.from_scores(PLAUSIBLE, k=6)  # holds the unlabelled item 2, hence 5 that count
    with pytest.raises(DataError, match="keeps 6 of 8 items, 6 are needed"):
        pmrp(six, QUERY_LABELS, GALLERY_LABELS, within=2, drop_unlabelled=True)
    # Item 2 leaves. From 110 within 2: top 6 of 1 3 7 5 4 0 6 has 1 3 7 5 0 of {0,1,3,5,6,7}.
    # From 001 within 2: top 5 of 4 6 3 0 7 1 5 has 4 3 7 of {1,3,4,5,7}.
    seven = Ranking.from_scores(PLAUSIBLE, k=7)
    value = pmrp(seven, QUERY_LABELS, GALLERY_LABELS, within=2, drop_unlabelled=True)
    np.testing.assert_allclose(value, [5 / 6, 3 / 5])


def test_a_query_that_is_not_asked_needs_no_depth():
    queries, gallery = [[1, 0, 0, 0], [0, 0, 0, 0]], np.eye(4, dtype=int)  # R = 1 and 4 within 1
    head = Ranking.from_scores([[1.0, 0.0, 0.0, 0.0]] * 2, k=2)
    value = pmrp(head, queries, gallery, within=1, drop_unlabelled=True)
    np.testing.assert_array_equal(value, [1, NAN])
    with pytest.raises(DataError, match="4 are needed"):
        pmrp(head, queries, gallery, within=1)


@pytest.mark.parametrize("metric", [metric for metric, _ in ORACLES.values()])
@pytest.mark.parametrize(
    "ranked",
    [
        *(np.zeros(shape) for shape in ((8, 4), (4, 7), (3, 8))),
        *(Ranking.from_scores(np.zeros(shape)) for shape in ((4, 9), (3, 8))),
        Ranking([[8]] * 4, [[0.0]] * 4),
    ],
    ids=str,
)
def test_rankings_of_something_else(metric, ranked):
    with pytest.raises(ShapeError, match=r"same items .* got \(\d, \d\) and \(4, 8\)"):
        metric(ranked, MATCHES)


@pytest.mark.parametrize(
    ("error", "message", "queries", "gallery", "options"),
    [
        (ShapeError, r"same items .* got \(2, 8\) and \(3, 8\)", [[1]] * 3, [[1]] * 8, {}),
        (ShapeError, r"same items .* got \(2, 8\) and \(2, 7\)", [[1]] * 2, [[1]] * 7, {}),
        (ShapeError, "equally wide, got 1 and 2 labels", [[1]] * 2, [[1, 0]] * 8, {}),
        (ShapeError, r"query_labels.* got shape \(2,\)", [1, 1], [[1]] * 8, {}),
        (DataError, "gallery_labels: must be binary, got 3", [[1]] * 2, [[3]] * 8, {}),
        (ConfigError, "within: is empty", [[1]] * 2, [[1]] * 8, {"within": ()}),
        (ConfigError, "whole number >= 0, got -1", [[1]] * 2, [[1]] * 8, {"within": -1}),
        (DataError, "all 8 label", [[1]] * 2, [[0]] * 8, {"drop_unlabelled": True}),
        (DataError, "all 2 label", [[0]] * 2, [[1]] * 8, {"drop_unlabelled": True}),
    ],
)
def test_bad_labels(error, message, queries, gallery, options):
    with pytest.raises(error, match=message):
        pmrp(PLAUSIBLE, queries, gallery, **options)


@pytest.mark.parametrize("metric", [recall, precision])
def test_bad_k(metric):
    with pytest.raises(ConfigError, match="k: must be at least 1, got 0"):
        metric(SCORES, MATCHES, 0)


@pytest.mark.parametrize("metric", [metric for metric, _ in ORACLES.values()])
def test_nan_scores(metric):
    scores = np.array(SCORES)
    scores[2, 5] = np.nan
    with pytest.raises(DataError, match="got nan at row 2, column 5"):
        metric(scores, MATCHES)
    with pytest.raises(DataError, match="got nan at row 1, column 5"):
        pmrp(scores[1:3], QUERY_LABELS, GALLERY_LABELS)


def nearest(query, k, reference, ref_includes_query):
    return (query @ reference.T).topk(k)


@pytest.mark.parametrize("seed", range(3))
def test_pytorch_metric_learning_agrees(seed):
    """Queries whose class is not in the gallery are left out there, and NaN here."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(8, 6, generator=generator)
    query_class = torch.arange(60) % 8
    gallery_class = torch.randint(7, (90,), generator=generator)  # class 7 has no answer
    query = centres[query_class] + torch.randn(60, 6, generator=generator)
    gallery = centres[gallery_class] + torch.randn(90, 6, generator=generator)
    names = ("precision_at_1", "r_precision", "mean_average_precision_at_r", "mean_reciprocal_rank")
    theirs = AccuracyCalculator(
        include=names, device=torch.device("cpu"), knn_func=nearest, kmeans_func=nearest
    ).get_accuracy(query, query_class, gallery, gallery_class)

    matches = Matches.from_classes(query_class, gallery_class)
    scores = query @ gallery.T
    assert np.isnan(r_precision(scores, matches)).tolist() == (query_class == 7).tolist()
    ours = {
        "precision_at_1": precision(scores, matches, 1),
        "r_precision": r_precision(scores, matches),
        "mean_average_precision_at_r": map_at_r(scores, matches),
        "mean_reciprocal_rank": 1 / median_rank(scores, matches),
    }
    assert 0.2 < theirs["r_precision"] < 0.9
    for name in names:
        assert np.nanmean(ours[name]) == pytest.approx(theirs[name], rel=1e-6)


SIDES = {"i2t": ("image", "caption"), "t2i": ("caption", "image")}


class Karpathy5K:
    """The real ids of COCO's 5,000 test images and 25,000 captions, the 50 best of made-up embeddings for each."""

    def __init__(self):
        self.eccv = ECCVCaption()
        captions = self.eccv.coco_ids
        owners = [self.eccv.coco_gts["t2i"][caption][0] for caption in captions.tolist()]
        images = np.array(list(dict.fromkeys(owners)))
        self.ids = {"image": images, "caption": captions}
        rng = np.random.default_rng(0)
        points, noise = (rng.standard_normal((len(ids), 6), np.float32) for ids in (images, captions))
        vectors = {"image": points, "caption": points[self.positions("image", owners)] + 0.5 * noise}
        self.rankings, self.lists = {}, {}  # by direction: as positions, and as lists of COCO ids
        for direction, (side, other) in SIDES.items():
            rows = vectors[side].reshape(-1, 500, 6)
            ranking = Ranking.cat([Ranking.from_scores(some @ vectors[other].T, k=50) for some in rows])
            found = self.ids[other][ranking.ids.numpy()].tolist()
            self.rankings[direction] = ranking
            self.lists[direction] = dict(zip(self.ids[side].tolist(), found, strict=True))

    def positions(self, side, wanted):
        order = np.argsort(self.ids[side])
        return order[np.searchsorted(self.ids[side], wanted, sorter=order)]

    def asked(self, direction, truth):
        """The rankings of the queries that the shipped ground truth has, and their Matches."""
        side, other = SIDES[direction]
        truth = truth[direction]
        items = self.positions(other, [item for row in truth.values() for item in row])
        queries = np.repeat(np.arange(len(truth)), [len(row) for row in truth.values()])
        matches = Matches.from_pairs(queries, items, (len(truth), len(self.ids[other])))
        return self.rankings[direction][self.positions(side, list(truth))], matches


@pytest.fixture(scope="module")
def coco():
    return Karpathy5K()


@pytest.mark.parametrize("k", [1, 5, 10])
@pytest.mark.parametrize(("truth", "function"), [("coco", "coco_5k"), ("cxc", "cxc"), ("eccv", "eccv")])
def test_eccv_caption_agrees_on_recall(coco, truth, function, k):
    theirs = getattr(coco.eccv, f"{function}_recalls")(coco.lists, "all", K=k)
    for direction in SIDES:
        ours = recall(*coco.asked(direction, getattr(coco.eccv, f"{truth}_gts")), k).mean()
        assert 0.02 < ours < 0.98
        assert ours == pytest.approx(theirs[direction], rel=1e-12)


def test_eccv_caption_agrees_on_map_at_r_and_r_precision(coco, capsys):
    theirs = coco.eccv.eccv_metrics(coco.lists, "all")
    capsys.readouterr()  # its progress bars
    for direction, size in (("i2t", (1261, 22550)), ("t2i", (1332, 11279))):
        ranking, matches = coco.asked(direction, coco.eccv.eccv_gts)
        assert (len(matches), len(matches.indices)) == size
        for name, metric in (("eccv_map_at_r", map_at_r), ("eccv_rprecision", r_precision)):
            assert metric(ranking, matches).mean() == pytest.approx(theirs[name][direction], rel=1e-12)


def test_eccv_caption_agrees_on_pmrp_where_the_two_definitions_meet():
    """Its PMRP is ζ = 0 over complete lists; the R ≤ 50 comes from giving it the top 50 only."""
    rng = np.random.default_rng(1)
    labels = rng.random((40, 3)) < 0.5
    owner = np.repeat(np.arange(40), 5)
    scores = rng.standard_normal((40, 200))
    judge = ECCVCaption()
    for direction, table, queries, gallery in (
        ("i2t", scores, labels, labels[owner]),
        ("t2i", scores.T, labels[owner], labels),
    ):
        matches = Matches.from_labels(queries, gallery, within=0)
        truth = {query: row.tolist() for query, row in enumerate(matches)}
        judge.pm_gts = {direction: truth}
        order = {query: ordered(row) for query, row in enumerate(table.tolist())}
        theirs = judge.pmrp({direction: order}, direction)[direction]
        assert pmrp(table, queries, gallery, within=0).mean() == pytest.approx(theirs, rel=1e-12)

        capped = {query: row[:4] for query, row in order.items()}
        theirs = judge.pmrp({direction: capped}, direction)[direction]
        depth = np.minimum(matches.counts, 4)
        hits = matches.hits([row[:4] for row in order.values()])
        ours = [row[:count].mean() for row, count in zip(hits, depth, strict=True)]
        assert np.mean(ours) == pytest.approx(theirs, rel=1e-12)
        with pytest.raises(DataError, match=r"PMRP: .* too short"):
            pmrp(Ranking.from_scores(table, k=4), queries, gallery, within=0)
