"""The victim of test_killed: forks a writer for every line it is sent, after all is imported.

A line is "PATH SEED": the writer opens the index there and adds, deletes and compacts at random
until it is killed, and says on stdout what it is about to do and what is done.
"""

import os
import sys
import warnings

import numpy as np

from pcme import Gaussian, SearchIndex
from tests.helpers import random_gaussians


def say(text):
    os.write(1, f"{text}\n".encode())


def write(path, seed):
    generator = np.random.default_rng(seed)
    index = SearchIndex.open(path)
    items: Gaussian = random_gaussians(8, 4, seed=seed)
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


def main():
    import lancedb  # noqa: F401 - before the fork, so that a writer starts at once

    warnings.simplefilter("ignore")  # lancedb says that it has noticed the fork
    say("ready")
    for line in sys.stdin:
        path, seed = line.split()
        child = os.fork()
        if child == 0:
            write(path, int(seed))
            os._exit(0)
        say(f"pid {child}")
        os.waitpid(child, 0)
        say("dead")


if __name__ == "__main__":
    main()
