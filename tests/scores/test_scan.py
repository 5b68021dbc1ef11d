"""Scans: with proof the same as scoring everything, whatever the score, the filter, the history."""

import numpy as np
import pytest
import torch

from pcme import Gaussian, Points, scores
from pcme.index.resident import Resident
from pcme.index.settings import Settings
from pcme.scores import scan as scanning
from pcme.scores.gallery import best_first
from tests.scores.worlds import clustered

SCORES = {
    "mean": {},
    "csd": {},
    "csd_prob": {"scale": 2.0, "shift": 2.0},
    "match_prob": {"scale": 8.0, "shift": 8.0},
    "overlap": {"scale": 5.0, "shift": -3.0},
    "elk": {},
    "bhattacharyya": {},
    "w2": {},
    "kl": {},
}
COUNT = 6000
pytestmark = pytest.mark.usefixtures("one_thread")


def held(items, name, ids=None):
    """(scan, resident) of items that are in memory, no store needed."""
    spread = "none" if isinstance(items, Points) else "diagonal"
    settings = Settings(items.dim, spread, score_of(name))
    resident = Resident(settings)
    fill(resident, items, ids or [f"{n:06d}" for n in range(len(items))])
    return settings.score.scan(resident), resident


def score_of(name):
    return scores.create(name, **SCORES[name])


def assert_as_topk(scan, name, queries, items, k):
    ranking, found = score_of(name).topk(queries, items, k=k), scan.top(queries, k)
    assert [one.rows.tolist() for one in found] == ranking.ids.tolist()
    assert torch.equal(torch.tensor(np.array([one.scores for one in found])), ranking.scores)


def fill(resident, items, ids):
    start = len(resident)
    resident.stable = start
    resident.reserve(start + len(items))
    resident.put(items, ids, np.arange(start, start + len(items)))
    resident.generation += 1


@pytest.mark.parametrize("name", SCORES)
def test_the_ids_are_those_of_topk(name):
    items, queries = clustered(COUNT, seed=0), clustered(12, seed=7, log_sigma=-1.5)
    assert_as_topk(held(items, name)[0], name, queries, items, 10)


@pytest.mark.parametrize("name", SCORES)
def test_a_filter_is_as_good_as_a_smaller_gallery(name):
    items, queries = clustered(COUNT, seed=0), clustered(4, seed=7)
    scan, resident = held(items, name)
    rows = np.sort(np.random.default_rng(0).choice(COUNT, 5000, replace=False))
    found = scan.top(queries, 10, rows)
    for n, one in enumerate(found):
        exact = scan.scores(queries[n], rows).numpy()
        best = best_first(exact, lambda place: resident.ids[rows[place]], 10)
        assert one.rows.tolist() == rows[best].tolist()
        assert one.searched == 5000


@pytest.mark.parametrize("name", ["csd", "match_prob", "overlap"])
def test_equal_scores_go_by_id(name):
    one = clustered(1, seed=3)
    items = Gaussian.cat([clustered(5000, seed=0), one[[0] * 20]])
    ids = [f"a{n:05d}" for n in range(5000)] + [f"z{(7 * n) % 20:02d}" for n in range(20)]
    scan, resident = held(items, name, ids)
    (found,) = scan.top(one, 8)
    assert [resident.ids[n] for n in found.rows] == [f"z{n:02d}" for n in range(8)]


@pytest.mark.parametrize("name", ["csd", "match_prob", "overlap"])
def test_a_scan_follows_what_is_added_and_removed(name, monkeypatch):
    monkeypatch.setattr(scanning, "BLOCK", 1024)
    items, queries = clustered(COUNT, seed=0), clustered(4, seed=7)
    scan, resident = held(items[:4500], name)
    scan.top(queries, 10)
    before = scan.all_kept()
    fill(resident, items[4500:], [f"{n:06d}" for n in range(4500, COUNT)])
    assert_as_topk(scan, name, queries, items, 10)
    assert [a is b for a, b in zip(before, scan.all_kept(), strict=False)] == [True] * 4 + [False]
    kept = np.ones(COUNT, bool)
    kept[np.random.default_rng(1).choice(np.arange(3000, COUNT), 500, replace=False)] = False
    resident.remove(kept)
    resident.generation += 1
    assert_as_topk(scan, name, queries, items[torch.from_numpy(kept)], 10)
    assert resident.ids == [f"{n:06d}" for n in np.flatnonzero(kept)]


@pytest.mark.parametrize("name", ["match_prob", "overlap"])
def test_queries_far_wider_and_items_of_all_widths_are_proven_or_scored(name):
    items = clustered(COUNT, seed=0)
    for shift in (6.0, 30.0):  # beyond what a wide pair is, and beyond single precision
        query = Gaussian(items.mean[:1], items.log_sigma[:1] + shift)
        assert_as_topk(held(items, name)[0], name, query, items, 5)
    odd = Gaussian(items.mean, items.log_sigma + torch.linspace(-6, 2, COUNT)[:, None])
    assert_as_topk(held(odd, name)[0], name, clustered(6, seed=7), odd, 10)


def test_fewer_than_asked_for():
    scan, _ = held(clustered(3, seed=0), "csd")
    (found,) = scan.top(clustered(1, seed=1), 10)
    assert len(found.rows) == 3
    (none,) = scan.top(clustered(1, seed=1), 10, np.empty(0, np.int64))
    assert len(none.rows) == 0
