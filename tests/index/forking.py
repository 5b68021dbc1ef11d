"""A process that imports everything once and forks a writer for every line it is sent.

"write PATH SEED" adds, deletes and compacts at random until it is killed, and says on stdout what
it is about to do and what is done. "fill PATH" writes to a disk that takes no more.
"""

import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from pcme import SearchIndex
from pcme.errors import PcmeError
from tests.helpers import random_gaussians
from tests.index.worlds import names

ROOT = Path(__file__).parents[2]


class Forker:
    """The process, seen from the tests."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.index.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.line() == "ready"

    def line(self):
        return self.process.stdout.readline().strip()

    def fork(self, command):
        """The process id of a new writer."""
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return int(self.line())

    def rest(self):
        """All lines until the writer is dead."""
        return list(iter(self.line, "dead"))

    def kill(self, path, seed, delay):
        """What a writer said that was killed some time after its first write."""
        pid = self.fork(f"write {path} {seed}")
        lines = list(iter(self.line, "done"))
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        return [*lines, "done", *self.rest()]

    def close(self):
        self.process.kill()
        self.process.communicate()


def say(text):
    os.write(1, f"{text}\n".encode())


def write(path, seed):
    generator = np.random.default_rng(int(seed))
    index, items = SearchIndex.open(path), random_gaussians(8, 4, seed=int(seed))
    for number in range(10_000):
        chosen = generator.random()
        if chosen < 0.5:
            ids = [f"{seed}-{number}-{n}" for n in range(8)]
            say(f"add {' '.join(ids)}")
            index.add(items, ids=ids)
        elif chosen < 0.75:
            ids = [f"{seed}-{int(generator.integers(number + 1))}-{n}" for n in range(3)]
            say(f"delete {' '.join(ids)}")
            index.delete(ids)
        else:
            say("compact")
            index.compact()
        say("done")


def fill(path):
    """A limit on the size of files stands in for a full disk: writing fails in the same place."""
    index = SearchIndex.open(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        index.add(random_gaussians(4000, 4, seed=0), ids=names(4000, 90_000))
    except PcmeError as error:
        say(f"{type(error).__name__}: {error}")


def main():
    import lancedb  # noqa: F401 - before the fork, so that a writer starts at once

    warnings.simplefilter("ignore")  # lancedb says that it has noticed the fork
    say("ready")
    for line in sys.stdin:
        verb, *arguments = line.split()
        start, go = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(start, 1)  # the parent speaks first
            {"write": write, "fill": fill}[verb](*arguments)
            os._exit(0)
        say(child)
        os.write(go, b".")
        os.waitpid(child, 0)
        os.close(start)
        os.close(go)
        say("dead")


if __name__ == "__main__":
    main()
