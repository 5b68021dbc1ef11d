"""Store: one writer at a time, clear errors when the disk is full, costs that do not grow."""

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from pcme import SearchIndex
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index import store
from tests.helpers import random_gaussians
from tests.index.worlds import drawn, names

ROOT = Path(__file__).parents[2]


def test_a_writer_waits_for_another(tmp_path):
    index, items = drawn(tmp_path / "index", 5)
    lock = FileLock(tmp_path / "index" / store.LOCK)
    lock.acquire()
    done = []
    thread = threading.Thread(target=lambda: done.append(index.add(items[:1], ids=["x"])))
    thread.start()
    time.sleep(0.3)
    assert done == []
    lock.release()
    thread.join(timeout=20)
    assert done[0].added == 1
    assert len(index) == 6


def test_a_writer_that_waits_too_long_says_so(tmp_path, monkeypatch):
    index, items = drawn(tmp_path / "index", 5)
    monkeypatch.setattr(store, "WAIT", 0.1)
    with (
        FileLock(tmp_path / "index" / store.LOCK),
        pytest.raises(DataError, match="locked by another writer"),
    ):
        index.add(items[:1], ids=["x"])
    assert len(index) == 5


def test_many_writers_at_once_lose_nothing(tmp_path):
    drawn(tmp_path / "index", 5)
    items = random_gaussians(40, 4, seed=3)

    def write(number):
        own = SearchIndex.open(tmp_path / "index")
        for n in range(10):
            own.add(items[10 * number + n], ids=[f"{number}-{n}"])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    index = SearchIndex.open(tmp_path / "index")
    assert len(index) == 45
    assert index.verify().ok


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


FULL = """
import resource, sys
from pcme import SearchIndex
from tests.helpers import random_gaussians
index = SearchIndex.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
index.add(random_gaussians(4000, 4, seed=0), ids=[str(n) for n in range(4000)])
"""


def test_a_disk_that_takes_no_more_leaves_the_index_as_it_was(tmp_path):
    """A limit on the size of files stands in for a full disk: writing fails in the same place."""
    index, items = drawn(tmp_path / "index")
    before = index.search(items[0], k=50).ids
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "index")],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("pcme.errors.FormatError: ")
    assert "could not add" in error
    assert "Free space" in error
    again = SearchIndex.open(tmp_path / "index")
    assert (len(again), again.verify().ok) == (50, True)
    assert again.search(items[0], k=50).ids == before
    again.add(random_gaussians(1, 4, seed=5), ids=["after"])
    again.compact()
    assert len(again) == 51
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises((FormatError, ConfigError), match="file"):
        drawn(tmp_path / "file" / "index", 1)
    with pytest.raises(ConfigError, match="exists already"):
        drawn(tmp_path / "file", 1)


def test_damage_is_found(tmp_path):
    drawn(tmp_path / "index")
    (file,) = (tmp_path / "index" / "items.lance" / "data").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 4] ^= 0xFF
    file.write_bytes(data)
    found = SearchIndex.open(tmp_path / "index").verify()
    assert not found.ok
    assert any("checksum" in fault or "cannot be read" in fault for fault in found.faults)


def test_what_is_deleted_is_gone_from_the_disk_after_compacting(tmp_path):
    index, _ = drawn(tmp_path / "index", 3000, dim=16)
    for n in range(5):
        index.add(random_gaussians(1, 16, seed=n), ids=[f"x{n}"])
    before = index.describe()
    assert before.parts == 6
    index.delete(where="number >= 10")
    index.compact()
    after = index.describe()
    assert (after.rows, after.parts) == (15, 1)
    assert after.bytes < before.bytes / 5
    assert index.verify().ok


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
        items = random_gaussians(16384, 16, seed=part)
        index.add(items, ids=names(16384, 100_000 * (part + 1)))
    index.compact()
    assert cost(index, "b") < 3 * few


def cost(index, name):
    """The least time of adding and deleting ten items."""
    times = []
    for n in range(8):
        items = random_gaussians(10, 16, seed=n)
        ids = [f"{name}-{n}-{i}" for i in range(10)]
        begin = time.perf_counter()
        index.add(items, ids=ids)
        index.delete(ids[:5])
        times.append(time.perf_counter() - begin)
    return min(times)


@pytest.mark.parametrize("tail", ["number < 5", "LIMIT 1", "; anything", "-- anything"])
def test_a_filter_is_read_to_its_end(tmp_path, tail):
    """The engine alone would stop where the first expression ends, and delete too much."""
    index, items = drawn(tmp_path / "index", 20)
    for ask in (
        lambda where: index.delete(where=where),
        lambda where: index.search(items[0], where=where),
        lambda where: index.ids(where),
    ):
        with pytest.raises(ConfigError, match="cannot be used"):
            ask(f"number > 10 {tail}")
    assert len(index) == 20


def test_a_filter_that_cannot_be_computed_is_an_error_of_the_filter(tmp_path):
    index, items = drawn(tmp_path / "index", 5)
    with pytest.raises(ConfigError, match="1/0"):
        index.search(items[0], where="number = 1/0")


def test_a_file_s_uri_is_a_folder_with_a_lock(tmp_path, monkeypatch):
    index, items = drawn(f"file://{tmp_path}/index", 5)
    assert index.describe().bytes > 0
    monkeypatch.setattr(store, "WAIT", 0.1)
    with (
        FileLock(tmp_path / "index" / store.LOCK),
        pytest.raises(DataError, match="locked by another writer"),
    ):
        index.add(items[:1], ids=["x"])
