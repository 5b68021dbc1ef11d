"""The best of a gallery's scores, and how equal scores are decided."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pcme.scores.gallery import Fixed, Gallery, best_first
from tests.helpers import random_gaussians


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 12))
def test_best_first_is_a_sort_by_score_then_key(values, k):
    keys = [f"{(7 * n) % 31:02d}" for n in range(len(values))]
    order = sorted(range(len(values)), key=lambda n: (-values[n], keys[n]))[:k]
    found = best_first(np.array(values, np.float32), keys.__getitem__, k)
    assert found.tolist() == order
    assert found.dtype == np.int64


@given(st.lists(st.integers(0, 3), min_size=8, max_size=8), st.permutations(range(8)), st.integers(1, 8))
def test_a_fixed_gallery_prefers_lower_rows(values, rows, k):
    gallery = Fixed(random_gaussians(8, 2, seed=0))
    scores = torch.tensor([[values[row] for row in rows]], dtype=torch.float32)
    top, best = gallery.best(scores, torch.tensor([rows]), k)
    expected = sorted(range(8), key=lambda row: (-values[row], row))[:k]
    assert best[0].tolist() == expected
    assert top[0].tolist() == [values[row] for row in expected]


def test_a_fixed_gallery_never_changes():
    gallery = Fixed(random_gaussians(8, 2, seed=0))
    assert isinstance(gallery, Gallery)
    assert (gallery.generation, gallery.stable, gallery.lasting) == (0, 0, False)
    with pytest.raises(AttributeError):
        gallery.generation = 1
