"""Writers in processes of their own, which a fork server starts at once and the tests kill."""

import multiprocessing
import resource
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from pcme import SearchIndex
from pcme.errors import PcmeError
from tests.helpers import random_gaussians
from tests.index.worlds import names

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["lancedb", "pytest", "tests.index.forking"])


def start(target, *arguments):
    """A process, and the pipe on which it says what it does."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=target, args=(theirs.send, *arguments))
    with pytest.MonkeyPatch.context() as patch:  # for the server, which the first process starts
        patch.chdir(Path(__file__).parents[2])
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONWARNINGS", "ignore")  # lancedb says that it has noticed the fork
        process.start()
    theirs.close()
    return process, ours


def rest(pipe):
    """All that a process says until it ends."""
    with suppress(EOFError):
        while True:
            yield pipe.recv()


def kill(path, seed, delay):
    """What a writer says that is killed some time after its first write."""
    process, pipe = start(write, path, seed)
    lines = list(iter(pipe.recv, "done"))
    time.sleep(delay)
    process.kill()
    process.join()
    return [*lines, "done", *rest(pipe)]


def write(say, path, seed):
    """Add, delete and compact at random until the end; say what is next, and when it is done."""
    generator = np.random.default_rng(seed)
    index, items = SearchIndex.open(path), random_gaussians(8, 4, seed=seed)
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


def fill(say, path):
    """Write to a full disk, for which a limit on the size of files stands in: writing fails in the same place."""
    index = SearchIndex.open(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        index.add(random_gaussians(4000, 4, seed=0), ids=names(4000, 90_000))
    except PcmeError as error:
        say(f"{type(error).__name__}: {error}")
