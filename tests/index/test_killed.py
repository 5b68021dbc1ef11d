"""Nothing is lost: writers are killed at fifty random moments; what was acknowledged is there."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pcme import SearchIndex
from tests.helpers import random_gaussians
from tests.index.worlds import drawn

ROOT = Path(__file__).parents[2]
KILLS = 50


class Victim:
    """A process that forks a writer on demand; what the writer says is read line by line."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.index.killed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.line() == "ready"

    def line(self):
        return self.process.stdout.readline().strip()

    def killed(self, path, seed, delay):
        """What a writer said that was killed some time after its first write."""
        self.process.stdin.write(f"{path} {seed}\n")
        self.process.stdin.flush()
        said = []
        pid = None
        while pid is None or "done" not in said:
            line = self.line()
            if line.startswith("pid "):
                pid = int(line.split()[1])
            else:
                said.append(line)
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        while (line := self.line()) != "dead":
            said.append(line)
        return said

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def victim():
    process = Victim()
    yield process
    process.close()


def replayed(ids, said):
    """(ids for certain, ids that the write under way may have added or removed)."""
    sure = set(ids)
    for what, after in zip(said, [*said[1:], "killed"], strict=True):
        verb, *named = what.split()
        if verb == "add":
            change = set(named) - sure
        elif verb == "delete":
            change = set(named) & sure
        else:
            continue
        if after != "done":
            return sure, change, verb
        sure = sure | change if verb == "add" else sure - change
    return sure, set(), None


def test_every_acknowledged_row_is_there_and_none_twice(victim, tmp_path):
    drawn(tmp_path / "index", 5)
    generator = np.random.default_rng(0)
    query = random_gaussians(1, 4, seed=99)
    caught = set()
    for seed in range(1, KILLS + 1):
        before = SearchIndex.open(tmp_path / "index").ids()
        said = victim.killed(tmp_path / "index", seed, generator.uniform(0, 0.06))
        sure, open_change, verb = replayed(before, said)
        index = SearchIndex.open(tmp_path / "index")
        ids = index.ids()
        assert len(ids) == len(set(ids))
        expected = sure | open_change if verb == "add" else sure - open_change
        assert set(ids) in (sure, expected)  # what was under way is there as a whole, or not at all
        assert index.verify().ok
        assert len(index.search(query, k=3)) == 3
        caught.add(said[-1].partition(" ")[0])
    assert caught >= {"add", "delete", "compact"}  # the moments were in the middle of all three


def test_the_next_writer_goes_on(victim, tmp_path):
    drawn(tmp_path / "index", 5)
    victim.killed(tmp_path / "index", 1, 0.02)
    index = SearchIndex.open(tmp_path / "index")
    count = len(index)
    index.add(random_gaussians(2, 4, seed=1), ids=["new-1", "new-2"])
    index.compact()
    assert len(index) == count + 2
    assert index.verify().ok
