"""What the tests of all layouts do: load a split with its problems, name what was found, measure memory."""

import tracemalloc

import numpy as np

from pcme.data.problems import Problems
from pcme.errors import PcmeError


def load_as(layout, root, split="all", **fields):
    problems = Problems()
    return layout(root, **fields).load(split, problems), problems


def ids(dataset):
    return [dataset.images.id(index) for index in range(len(dataset.images))]


def wheres(problems, kind):
    return [problem.where for problem in problems.kept(kind)]


def named(problems):
    """{kind: where each problem of that kind is}."""
    return {kind: wheres(problems, kind) for kind in problems.counts}


def traced(function, *args):
    """The result of a call, and the most memory that it held."""
    tracemalloc.start()
    result = function(*args)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return result, peak


def outcomes(read, path, damage, count):
    """What comes of a file that is damaged `count` times: (images, problems), or an error of pcme."""
    whole, generator, seen = path.read_bytes(), np.random.default_rng(0), set()
    for _ in range(count):
        path.write_bytes(damage(bytearray(whole), generator))
        try:
            dataset, problems = read()
            seen.add((len(dataset.images), len(problems)))
        except PcmeError as error:
            seen.add(type(error))
    return seen
