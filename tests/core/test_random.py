"""Streams: the same name gives the same numbers, another name independent ones."""

import numpy as np

from pcme.core.random import numpy_stream


def test_every_part_of_the_name_matters_and_nothing_else():
    assert np.array_equal(numpy_stream(1, "a", 2).random(5), numpy_stream(1, "a", 2).random(5))
    names = [(0, "a", 1), (1, "a", 1), (0, "b", 1), (0, "a", 2), (0, "a"), (0, "a", 1, 0)]
    firsts = {float(numpy_stream(*name).random()) for name in names}
    assert len(firsts) == len(names)


def test_streams_are_independent_and_uniform():
    draws = np.array([numpy_stream(0, "sample", i).random(2) for i in range(4000)])
    standard_error = (1 / 12 / len(draws)) ** 0.5
    assert np.abs(draws.mean(0) - 0.5).max() < 5 * standard_error
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 5 / len(draws) ** 0.5
