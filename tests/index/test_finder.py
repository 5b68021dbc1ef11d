"""Finder: filters, and the newest version for every reader."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from pcme import SearchIndex
from pcme.errors import ConfigError, DataError
from tests.helpers import random_gaussians
from tests.index.worlds import drawn, image_ids, names


def test_a_filter_comes_before_the_ranking_and_may_leave_nothing(world):
    index, _, dataset = world
    ids = [name for name in image_ids(dataset) if name >= "test/0003"]
    hits = index.search("a bird", k=50, where="kind = 'image' AND id >= 'test/0003'")
    assert (sorted(hits.ids), hits.searched) == (ids, len(ids))
    every = index.search("a bird", k=50, kind="image").ids
    assert hits.ids == [name for name in every if name >= "test/0003"]
    assert len(every) == 24  # more than there are gives all
    hits = index.search("a bird", where="id = 'nobody'")
    assert (len(hits), hits.searched, hits.query.expected_matches) == (0, 0, 0.0)
    assert hits.query.answerable is False


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("colour = 'red'", "No field named colour.*columns id, kind, path, text, number"),
        ("number >", "cannot be used"),
        ("number", "does not return a boolean"),
        ("number = 3 +", "cannot be used"),
        ("number = 1/0", "1/0"),
        # the engine alone would stop where the first expression ends, and delete too much
        *((f"number > 10 {tail}", "cannot be used") for tail in ("number < 5", "LIMIT 1", "; anything", "-- anything")),
    ],
)
def test_a_bad_filter_names_the_columns(unchanged, where, message):
    index, items = unchanged
    for call in (partial(index.search, items[0]), index.ids, index.delete):
        with pytest.raises(ConfigError, match=message):
            call(where=where)


def test_a_reader_sees_what_another_has_written(fifty):
    index, items = fifty
    reader = SearchIndex.open(index.path)
    assert len(reader.search(items[0], k=100)) == 50
    index.add(random_gaussians(5, 4, seed=5), ids=names(5, 50))
    index.delete(["00001"])
    index.compact()
    ids = reader.search(items[0], k=100).ids
    assert sorted(ids) == sorted([*names(1), *names(53, 2)])
    assert ids == SearchIndex.open(index.path).search(items[0], k=100).ids
    index.delete(ids)
    with pytest.raises(DataError, match="is empty"):
        reader.search(items[0])


def test_readers_are_never_in_the_way_of_a_writer(tmp_path):
    shared, _ = drawn(tmp_path / "index", 200)
    query, stop = random_gaussians(1, 4, seed=99), threading.Event()

    def read(index):
        counts = set()
        while not stop.is_set():
            counts.add(len(index.search(query, k=5)))
        return counts

    writer = SearchIndex.open(shared.path)
    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read, index) for index in (shared, shared, SearchIndex.open(shared.path))]
        try:
            for n in range(15):
                writer.add(random_gaussians(5, 4, seed=n), ids=[f"{n}-{i}" for i in range(5)])
                writer.delete([f"{n}-0", f"{n:05d}"])
                if n % 3 == 0:
                    writer.compact()
        finally:
            stop.set()
    assert [reader.result(timeout=30) for reader in readers] == [{5}] * 3
    assert len(shared.search(query, k=500)) == len(writer) == 200 + 15 * 3
