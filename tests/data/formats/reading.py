"""What the tests of all layouts do: load a split with its problems, name what was found, measure memory."""

import tracemalloc

from pcme.data.problems import Problems


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
