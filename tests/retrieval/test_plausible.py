"""Plausible matches by groups of labels against R-Precision, which compares all pairs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pcme.retrieval.matches import Matches
from pcme.retrieval.metrics import r_precision
from pcme.retrieval.plausible import RADII, Groups, Plausible
from pcme.retrieval.ranking import Ranking


def between(queries, gallery):
    """The plausible matches of queries with these labels among items with those."""
    places = np.arange(len(queries)), np.arange(len(queries), len(queries) + len(gallery))
    return Plausible.of(Groups.of(np.concatenate([queries, gallery])), *places)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_shares_are_r_precision_among_the_labelled(seed, density):
    generator = np.random.default_rng(seed)
    queries, gallery = (generator.random((n, 4)) < density for n in (6, 9))
    gallery[0, 0] = queries[0, 0] = True
    labelled, asked = gallery.any(1), queries.any(1)
    scores = generator.integers(0, 5, (6, 9)).astype(np.float32)  # ties too
    expected = np.full((6, len(RADII)), np.nan)
    for column, radius in enumerate(RADII):
        matches = Matches.from_labels(queries, gallery[labelled], radius)
        expected[:, column] = np.where(asked, r_precision(scores[:, labelled], matches), np.nan)
    plausible = between(queries, gallery)
    for ranked in (scores, scores.astype(np.float64), Ranking.from_scores(scores)):
        np.testing.assert_array_equal(plausible.shares(ranked, slice(0, 6)), expected)


def test_sizes_are_the_numbers_of_plausible_items():
    found = between([[1, 0, 0], [1, 1, 1], [0, 0, 0]], [[1, 0, 0], [1, 1, 0], [0, 0, 1]])
    assert found.sizes[found.query_group[0]].tolist() == [1, 2, 3]
    assert found.sizes[found.query_group[1]].tolist() == [0, 1, 3]
    assert found.query_group[2] == -1
