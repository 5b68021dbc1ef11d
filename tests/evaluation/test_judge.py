"""The best ids of a row without looking at most of it, against a full sort, ties included."""

import numpy as np
import pytest

from pcme import Matches
from pcme.errors import DataError
from pcme.evaluation.ground_truth import Relation
from pcme.evaluation.judge import OWN, _best, block_metrics
from pcme.retrieval.ranking import top_ids


@pytest.mark.parametrize("depth", [1, 10, 50])
@pytest.mark.parametrize("values", [3, 50, 10**6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_best_are_those_of_a_full_sort(depth, values, dtype):
    generator = np.random.default_rng(values)
    scores = generator.integers(0, values, (5, 4001)).astype(dtype)
    scores[1] = -np.inf  # nothing is better than anything
    scores[2, :-7] = -np.inf
    scores[3] = np.arange(4001)
    np.testing.assert_array_equal(_best(scores, depth), top_ids(scores, depth))


def test_judging_refuses_what_has_no_order():
    relation = {OWN: Relation.of(Matches.from_dense(np.eye(2, dtype=bool)))}
    with pytest.raises(DataError, match="must not be NaN"):
        block_metrics(np.array([[np.nan, 1.0], [0.0, 1.0]]), slice(0, 2), relation, None)
