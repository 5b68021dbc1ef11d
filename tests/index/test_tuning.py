"""Tuning: recall that is measured, effort that is kept, searches that use it."""

import numpy as np
import pytest

from pcme import Gaussian, SearchIndex
from pcme.errors import ConfigError, FormatError
from pcme.index import approximate, finder, tuning
from pcme.scores.combine import any_of
from tests.helpers import random_gaussians
from tests.index.worlds import drawn, names

COUNT, DIM = 5000, 12


@pytest.fixture(scope="module", params=["csd_prob", "overlap"])
def tuned(request, tmp_path_factory):
    """(index that was tuned, its items, queries)."""
    path = tmp_path_factory.mktemp("tuned") / "index"
    index, items = drawn(path, COUNT, dim=DIM, score=request.param, seed=COUNT)
    queries = random_gaussians(60, DIM, seed=60, log_sigma=-1.5)
    index.tune([queries[n] for n in range(30)], target=0.95)
    return index, items, queries


@pytest.fixture
def loaded(tuned):
    """The index with all embeddings in memory."""
    index = SearchIndex.open(tuned[0].path)
    index.load()
    return index


def recall(index, items, queries, search):
    """The share of the true ten best that a search by each query finds."""
    best = index.settings.score.topk(queries, items, k=10).ids.tolist()
    return np.mean([np.isin([f"{n:05d}" for n in row], search(queries[q])).mean() for q, row in enumerate(best)])


def test_the_target_is_reached_and_kept_with_the_index(tuned):
    index, items, queries = tuned
    description = SearchIndex.open(index.path).describe()
    assert description.effort["recall"] >= 0.95
    assert description.approximate == COUNT
    assert description.worthwhile == tuning.tuning_in(index._store).worthwhile

    def search(query):
        hits = index.search(query, k=10, exact=False)
        assert not hits.exact
        return hits.ids

    assert recall(index, items, queries[30:], search) > 0.9  # queries it was not tuned on


def test_candidates_are_scored_from_disk_or_from_memory_alike(tuned, loaded):
    on_disk, queries = SearchIndex.open(tuned[0].path), tuned[2]
    for n in range(5):
        left, right = (index.search(queries[n], exact=False) for index in (on_disk, loaded))
        assert left.ids == right.ids
        assert left[0].score == pytest.approx(right[0].score, rel=1e-4)
        assert left.searched == right.searched == COUNT
        assert left.query.expected_matches == pytest.approx(right.query.expected_matches, rel=0.5, abs=5)


def test_small_indexes_are_searched_exactly_unless_told_otherwise(tuned, monkeypatch):
    index, _, queries = tuned
    assert index.search(queries[0]).exact
    monkeypatch.setattr(finder, "SMALL", 100)
    assert index.search(queries[0], exact=True).exact
    assert index.search(queries[0]).exact is not tuning.tuning_in(index._store).worthwhile


@pytest.mark.parametrize(("where", "rows"), [("number < 30", range(30)), ("number % 2 = 0", range(0, COUNT, 2))])
def test_a_filter_still_gives_as_many_as_are_asked_for(tuned, where, rows):
    index, items, queries = tuned
    hits = index.search(queries[0], k=10, where=where, exact=False)
    assert (len(hits), hits.searched) == (10, len(rows))
    best = index.settings.score.topk(queries[0], items[list(rows)], k=10).ids[0]
    assert np.isin(hits.ids, [f"{rows[n]:05d}" for n in best]).mean() > 0.8


def test_a_combination_is_looked_for_in_all_its_parts(tuned, loaded):
    index, _, queries = tuned
    shares = []
    for n in range(0, len(queries), 2):  # of many: what one of them misses is the engine's luck
        query = any_of([queries[n], queries[n + 1]])
        exact, near = (index.search(query, exact=exact) for exact in (True, False))
        shares.append(np.isin(near.ids, exact.ids).mean())
    assert np.mean(shares) > 0.85
    exact, near = (loaded.search(query, exact=exact).query.expected_matches for exact in (True, False))
    assert near == pytest.approx(exact, rel=0.2, abs=5)


def test_compaction_does_not_cost_recall(tuned):
    index, items, queries = tuned
    effort = approximate.Effort(20, 400)  # so little that joined partitions, or codes, are felt

    def short_list_recall():
        ann = approximate.Approximate(index.settings, index._store)
        return recall(index, items, queries, lambda query: ann.nearest(query, effort, ["id"])["id"].to_pylist())

    before = short_list_recall()
    index.compact()
    assert short_list_recall() > before - 0.05


def test_what_is_added_later_is_found(tuned):
    index, _, queries = tuned
    late = [f"late-{n}" for n in range(len(queries))]
    index.add(queries, ids=late)
    best = [n for n, name in enumerate(late) if name in index.search(queries[n], k=3, exact=True).ids]
    assert len(best) > 50  # an item made of the query itself is among its best

    def share_found():  # of many: which partitions a single item falls in is the engine's luck
        return np.mean([late[n] in index.search(queries[n], k=3, exact=False).ids for n in best])

    assert share_found() > 0.85
    index.compact()
    assert share_found() > 0.85
    assert index.describe().approximate == COUNT + len(late)
    assert index.verify().ok
    index.delete(late)
    assert share_found() == 0


def test_items_stand_in_for_queries_and_an_index_that_shrinks_is_still_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "LEAST", 1000)
    monkeypatch.setattr(tuning, "MEASURED", 30)
    index, _ = drawn(tmp_path / "index", 1100)
    outcome = index.tune(target=0.9)
    assert (outcome.reached, outcome.rows, outcome.queries) == (True, 1100, 30)
    query = random_gaussians(1, 4, seed=1)
    assert index.search(query, exact=False).exact is False
    index.delete(where="number >= 40")
    index.compact()
    assert index.describe().approximate == 0
    assert index.search(query, exact=False).ids == index.search(query, exact=True).ids
    index.add(random_gaussians(1100, 4, seed=2), ids=names(1100, 5000))
    index.compact()
    assert index.describe().approximate == 1140


def test_what_cannot_be_tuned_says_why(tmp_path):
    index, items = drawn(tmp_path / "index", 10, score="kl")
    with pytest.raises(ConfigError, match=r'10 items.*"kl"'):
        index.tune()
    with pytest.raises(ConfigError, match="recall"):
        index.tune(target=1.5)
    assert index.search(items[0], exact=False).exact  # there is nothing else
    with index._store.writing():
        index._store.note(tuning="{}")
    with pytest.raises(FormatError, match="tuning is damaged"):
        index.search(items[0], exact=False)


def test_the_best_trial_is_the_cheapest_that_is_good_enough():
    outcomes = {(5, 50): (0.9, 1.0), (10, 50): (0.99, 3.0), (5, 100): (0.995, 2.0)}
    trials = [tuning.Trial(approximate.Effort(*effort), *outcome) for effort, outcome in outcomes.items()]
    for target, best in ((0.99, 2), (0.999, 2), (0.5, 0)):
        assert tuning.best_of(trials, target) == trials[best]


def test_everything_can_be_streamed_instead(tmp_path, monkeypatch):
    index, items = drawn(tmp_path / "index", 300, score="match_prob")
    query = Gaussian(items.mean[:1], items.log_sigma[:1] + 0.5)
    filters = [None, "number < 50", "false"]
    in_memory = [index.search(query, where=where) for where in filters]
    monkeypatch.setattr(finder, "MEMORY_LIMIT", 0)
    monkeypatch.setattr("pcme.index.store.BATCH", 64)
    for where, left in zip(filters, in_memory, strict=True):
        right = index.search(query, where=where)
        assert (left.ids, left.exact, right.exact) == (right.ids, True, True)
        assert left.query.expected_matches == pytest.approx(right.query.expected_matches, rel=1e-5)
