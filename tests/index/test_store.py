"""Store: one writer at a time, clear errors when the disk is full, costs that do not grow."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from filelock import FileLock

from pcme import SearchIndex
from pcme.errors import DataError
from pcme.index import store
from tests.helpers import random_gaussians
from tests.index import forking
from tests.index.worlds import drawn, names


def test_a_writer_waits_for_another(tmp_path):
    index, items = drawn(tmp_path / "index", 5)
    with ThreadPoolExecutor(1) as pool:
        with FileLock(tmp_path / "index" / store.LOCK):
            writer = pool.submit(index.add, items[:1], ids=["x"])
            time.sleep(0.3)
            assert not writer.done()
        assert (writer.result(timeout=20).added, len(index)) == (1, 6)


@pytest.mark.parametrize("uri", ["{folder}", "file://{folder}"])
def test_a_writer_that_waits_too_long_says_so(tmp_path, monkeypatch, uri):
    index, items = drawn(uri.format(folder=tmp_path / "index"), 5)
    assert index.describe().bytes > 0
    monkeypatch.setattr(store, "WAIT", 0.1)
    with FileLock(tmp_path / "index" / store.LOCK), pytest.raises(DataError, match="locked by another writer"):
        index.add(items[:1], ids=["x"])
    assert len(index) == 5


def test_many_writers_at_once_lose_nothing(tmp_path):
    index, _ = drawn(tmp_path / "index", 5)
    items = random_gaussians(20, 4, seed=3)

    def write(number):
        writer = SearchIndex.open(index.path)
        for n in range(5):
            writer.add(items[5 * number + n], ids=[f"{number}-{n}"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4), timeout=60))
    assert len(index) == 25
    assert index.verify().ok


def test_a_disk_that_takes_no_more_leaves_the_index_as_it_was(fifty):
    index, items = fifty
    before = index.search(items[0], k=50).ids
    (error,) = forking.rest(forking.start(forking.fill, index.path)[1])
    assert all(part in error for part in ("FormatError: ", "could not add", "Free space"))
    again = SearchIndex.open(index.path)
    assert (len(again), again.verify().ok, again.search(items[0], k=50).ids) == (50, True, before)
    again.add(random_gaussians(1, 4, seed=5), ids=["after"])
    again.compact()
    assert len(again) == 51


def test_an_object_store_s_uri_will_do():
    index, items = drawn("memory://birds", 20)
    index.delete("00003")
    assert index.search(items[3], k=19).ids[0] != "00003"
    assert (len(index), index.verify().ok, index.describe().bytes) == (19, True, None)
    index.compact()
    assert len(index) == 19


def test_adding_and_deleting_does_not_look_at_what_is_there(tmp_path):
    """A hundred times the rows must not make it dearer; twice as dear is the machine's noise."""
    index, _ = drawn(tmp_path / "index", 500, dim=16)
    few = cost(index, "a")
    for part in range(3):
        index.add(random_gaussians(16384, 16, seed=part), ids=names(16384, 100_000 * (part + 1)))
    index.compact()
    assert cost(index, "b") < 3 * few


def cost(index, name):
    """The least time of adding and deleting ten items."""
    times = []
    for n in range(8):
        items, ids = random_gaussians(10, 16, seed=n), [f"{name}-{n}-{i}" for i in range(10)]
        begin = time.perf_counter()
        index.add(items, ids=ids)
        index.delete(ids[:5])
        times.append(time.perf_counter() - begin)
    return min(times)
