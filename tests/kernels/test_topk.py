"""The compiled loops of a search against numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcme.kernels import topk


@given(
    seed=st.integers(0, 1000),
    items=st.integers(1, 400),
    width=st.integers(1, 50),
    step=st.integers(1, 130),
    levels=st.sampled_from([2, 5, 1000]),
)
def test_best_keys_are_the_first_of_a_stable_sort(seed, items, width, step, levels):
    width = min(width, items)
    keys = np.random.default_rng(seed).integers(-levels, levels, (3, items)).astype(np.float32)
    best = topk.BestKeys(3, width, 2)
    for start in range(0, items, step):
        best.add(np.ascontiguousarray(keys[:, start : start + step]), start)
    order = np.argsort(-keys, axis=1, kind="stable")[:, :width]
    found, ids = best.result()
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(found, np.take_along_axis(keys, order, 1))


@given(seed=st.integers(0, 1000), items=st.integers(1, 200), k=st.integers(1, 9))
def test_merging_blocks_keeps_ties_by_id(seed, items, k):
    k = min(k, items)
    scores = np.random.default_rng(seed).integers(0, 4, (2, items)).astype(np.float64)
    best, ids = np.full((2, k), -np.inf), np.full((2, k), -1)
    for start in range(0, items, 37):
        topk.merge_topk(scores[:, start : start + 37], start, best, ids, 2)
    np.testing.assert_array_equal(ids, np.argsort(-scores, axis=1, kind="stable")[:, :k])


@pytest.mark.parametrize("threads", [1, 3])
def test_products_equal_numpy(threads):
    rng = np.random.default_rng(0)
    items, query, own = (rng.standard_normal(s).astype(np.float32) for s in ((50, 9), 9, 50))
    np.testing.assert_allclose(topk.products(items, query, own, threads), items @ query + own, rtol=1e-5, atol=1e-6)
