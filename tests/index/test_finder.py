"""Finder: filters, and the newest version for every reader."""

import threading

import pytest

from pcme import SearchIndex
from pcme.errors import ConfigError, DataError
from tests.helpers import random_gaussians
from tests.index.worlds import drawn, names


def test_a_filter_comes_before_the_ranking(world):
    index, _, dataset = world
    kept = [n for n in range(24) if dataset.images.id(n) >= "test/0003"]
    hits = index.search("a bird", k=50, where="kind = 'image' AND id >= 'test/0003'")
    assert sorted(hits.ids) == [dataset.images.id(n) for n in kept]
    assert hits.searched == len(kept)
    alone = index.search("a bird", k=50, kind="image")
    assert hits.ids == [one for one in alone.ids if one >= "test/0003"]


def test_a_filter_that_leaves_nothing_finds_nothing(world):
    hits = world[0].search("a bird", where="id = 'nobody'")
    assert (len(hits), hits.searched, hits.query.expected_matches) == (0, 0, 0.0)
    assert hits.query.answerable is False


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("colour = 'red'", "No field named colour.*columns id, kind, path, text, split"),
        ("number >", "cannot be used"),
        ("split", "does not return a boolean"),
        ("split = 3 +", "cannot be used"),
    ],
)
def test_a_bad_filter_names_the_columns(world, where, message):
    with pytest.raises(ConfigError, match=message):
        world[0].search("a bird", where=where)
    with pytest.raises(ConfigError, match=message):
        world[0].delete(where=where)


def test_more_than_there_are_gives_all(world):
    assert len(world[0].search("a bird", k=1000, kind="image")) == 24


def test_an_empty_index_says_so(tmp_path):
    index, _ = drawn(tmp_path / "index", 0)
    with pytest.raises(DataError, match="is empty"):
        index.search(random_gaussians(1, 4, seed=0))


def test_a_reader_sees_what_another_has_written(tmp_path):
    index, items = drawn(tmp_path / "index")
    reader = SearchIndex.open(tmp_path / "index")
    assert len(reader.search(items[0], k=100)) == 50
    index.add(random_gaussians(5, 4, seed=5), ids=names(5, 50))
    index.delete(["00001"])
    index.compact()
    found = reader.search(items[0], k=100)
    assert sorted(found.ids) == sorted([*names(1), *names(53, 2)])
    assert found.ids == SearchIndex.open(tmp_path / "index").search(items[0], k=100).ids


def test_readers_are_never_in_the_way_of_a_writer(tmp_path):
    drawn(tmp_path / "index", 200)
    query = random_gaussians(1, 4, seed=99)
    shared = SearchIndex.open(tmp_path / "index")
    stop, counts, faults = threading.Event(), [], []

    def read(index):
        while not stop.is_set():
            try:
                counts.append(len(index.search(query, k=5)))
            except Exception as error:  # a fault in a thread must fail the test
                faults.append(error)
                return

    readers = [shared, shared, SearchIndex.open(tmp_path / "index")]
    threads = [threading.Thread(target=read, args=(index,)) for index in readers]
    for thread in threads:
        thread.start()
    writer = SearchIndex.open(tmp_path / "index")
    for n in range(15):
        writer.add(random_gaussians(5, 4, seed=n), ids=[f"{n}-{i}" for i in range(5)])
        writer.delete([f"{n}-0", f"{n:05d}"])
        if n % 3 == 0:
            writer.compact()
    stop.set()
    for thread in threads:
        thread.join(timeout=30)
    assert faults == []
    assert set(counts) == {5}
    assert len(shared.search(query, k=500)) == len(writer) == 200 + 15 * 3
