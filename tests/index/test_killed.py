"""Nothing is lost: writers are killed at fifty random moments; what was acknowledged is there."""

import numpy as np

from pcme import SearchIndex
from tests.helpers import random_gaussians
from tests.index.forking import kill
from tests.index.worlds import drawn

KILLS = 50


def replayed(ids, lines):
    """(ids for certain, ids that the write under way may have added or removed)."""
    sure = set(ids)
    for line, after in zip(lines, [*lines[1:], "killed"], strict=True):
        verb, *named = line.split()
        if verb not in ("add", "delete"):
            continue
        change = set(named) - sure if verb == "add" else set(named) & sure
        if after != "done":
            return sure, change
        sure ^= change
    return sure, set()


def test_every_acknowledged_row_is_there_and_none_twice(tmp_path):
    ids = drawn(tmp_path / "index", 5)[0].ids()
    generator = np.random.default_rng(0)
    query = random_gaussians(1, 4, seed=99)
    caught = set()
    for seed in range(1, KILLS + 1):
        lines = kill(tmp_path / "index", seed, generator.uniform(0, 0.06))
        sure, change = replayed(ids, lines)
        index = SearchIndex.open(tmp_path / "index")
        ids = index.ids()
        assert len(ids) == len(set(ids))
        assert set(ids) in (sure, sure ^ change)  # what was under way is there as a whole, or not at all
        assert index.verify().ok
        assert len(index.search(query, k=3)) == 3
        caught.add(lines[-1].partition(" ")[0])
    assert caught >= {"add", "delete", "compact"}  # the moments were in the middle of all three


def test_the_next_writer_goes_on(tmp_path):
    drawn(tmp_path / "index", 5)
    kill(tmp_path / "index", 1, 0.02)
    index = SearchIndex.open(tmp_path / "index")
    count = len(index)
    index.add(random_gaussians(2, 4, seed=1), ids=["new-1", "new-2"])
    index.compact()
    assert len(index) == count + 2
    assert index.verify().ok
