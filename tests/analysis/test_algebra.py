"""algebra: inclusion where it is, and where it is not."""

import numpy as np
import pytest
import torch

from pcme import ConfigError
from pcme.analysis.algebra import Algebra, related
from tests.analysis.subjects import subject
from tests.helpers import random_gaussians


def gaussians(n, dim, seed, log_sigma=-1.0):
    return random_gaussians(n, dim, seed=seed, log_sigma=log_sigma, dtype=torch.float64)


def test_inclusion_holds_for_the_narrow_in_the_wide_and_not_the_other_way():
    narrow, wide = gaussians(20, 6, 0, -3.0), gaussians(20, 6, 0, 0.0)
    texts = [("",)] * 20

    def relation(inner, outer):
        shown = (("inner", inner), ("outer", outer))
        return related(
            "in", ("inner", "outer"), (inner, outer), shown, np.arange(20), texts, among=wide
        )

    assert relation(narrow, wide).backward.value < 0.5 < relation(narrow, wide).forward.value
    assert relation(wide, narrow).holds.value == 0


def test_a_pair_no_nearer_than_another_does_not_hold():
    """What any outer item covers is no sign of a relation with its own."""
    inner, outer = gaussians(20, 6, 0, -3.0), gaussians(20, 6, 1, 3.0)
    shown = (("inner", inner), ("outer", outer))
    found = related(
        "in", ("inner", "outer"), (inner, outer), shown, np.arange(20), [("",)] * 20, among=outer
    )
    assert found.forward.value == pytest.approx(found.chance.value, abs=0.01)
    assert found.holds.value < 0.9


def test_four_relations_where_there_are_pixels_and_words():
    found = Algebra(pairs=10).compute(subject())
    assert [relation.pairs for relation in found.relations] == [10, 10, 10, 10]
    for relation in found.relations:
        assert 0 <= relation.holds.value <= 1
        assert 2 <= len(relation.example.shapes) <= 3


def test_a_share_beyond_the_whole_is_refused():
    with pytest.raises(ConfigError, match="between 0 and 1"):
        Algebra(erased=1.5)
