"""Plausible matches by groups of labels against `metrics.pmrp`, which compares all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcme.errors import DataError
from pcme.retrieval import metrics
from pcme.retrieval.plausible import RADII, Groups, Plausible


def between(queries, gallery):
    """The plausible matches of queries with these labels among items with those."""
    places = np.arange(len(queries)), np.arange(len(queries), len(queries) + len(gallery))
    return Plausible.of(Groups.of(np.concatenate([queries, gallery])), *places)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_shares_are_pmrp(seed, density):
    generator = np.random.default_rng(seed)
    queries, gallery = (generator.random((n, 4)) < density for n in (6, 9))
    gallery[0, 0] = True  # without any label in the gallery `metrics.pmrp` is an error
    queries[0, 0] = True
    scores = generator.integers(0, 5, (6, 9)).astype(np.float32)  # ties too
    found = between(queries, gallery)
    shares = found.shares(scores, slice(0, 6))
    np.testing.assert_array_equal(shares, found.shares(scores.astype(np.float64), slice(0, 6)))
    for place, radius in enumerate(RADII):
        expected = metrics.pmrp(scores, queries, gallery, radius, drop_unlabelled=True)
        np.testing.assert_allclose(shares[:, place], expected)
    expected = metrics.pmrp(scores, queries, gallery, RADII, drop_unlabelled=True)
    np.testing.assert_allclose(shares.mean(1), expected)


def test_sizes_are_the_numbers_of_plausible_items():
    found = between([[1, 0, 0], [1, 1, 1], [0, 0, 0]], [[1, 0, 0], [1, 1, 0], [0, 0, 1]])
    assert found.sizes[found.query_group[0]].tolist() == [1, 2, 3]
    assert found.sizes[found.query_group[1]].tolist() == [0, 1, 3]
    assert found.query_group[2] == -1


def test_labels_of_nobody_are_an_error():
    with pytest.raises(DataError, match="plausible matches need labels"):
        Groups.of(np.zeros((2, 3)))
