"""algebra: inclusion where it is, and where it is not."""

import numpy as np
import pytest
import torch

from pcme.analysis import algebra
from pcme.analysis.algebra import AlgebraAnalysis, related
from pcme.analysis.geometry import cover
from pcme.data.problems import Problems
from pcme.errors import ConfigError
from pcme.evaluation import Subject, embed
from tests.analysis.subjects import subject, untrained, world
from tests.helpers import random_gaussians


def gaussians(seed, log_sigma=-1.0):
    return random_gaussians(20, 6, seed=seed, log_sigma=log_sigma, dtype=torch.float64)


def relation(inner, *outers, among):
    shown = [("inner", inner), *(("outer", outer) for outer in outers)]
    count = len(inner)
    return related(("in", "inner", "outer"), (inner, outers), shown, [("",)] * count, np.arange(count), among)


def test_inclusion_holds_for_the_narrow_in_the_wide_and_not_the_other_way():
    narrow, wide = gaussians(0, -3.0), gaussians(0, 0.0)
    found = relation(narrow, wide, among=wide)
    assert found.backward.value < 0.5 < found.forward.value
    assert relation(wide, narrow, among=wide).holds.value == 0


def test_a_pair_no_nearer_than_another_does_not_hold():
    """What any outer item covers is no sign of a relation with its own."""
    inner, outer = gaussians(0, -3.0), gaussians(1, 3.0)
    found = relation(inner, outer, among=outer)
    assert found.forward.value == pytest.approx(found.chance.value, abs=0.01)
    assert found.holds.value < 0.9


def test_what_lies_in_one_of_two_alone_does_not_hold():
    """The order of the outers changes nothing: the one it lies in least is what counts."""
    inner, around, apart = gaussians(0, -4.0), gaussians(0, -2.0), gaussians(7)

    def holds(outer, pair):
        other = outer[[(pair + 1) % 20]]
        own, mine = outer[[pair]], inner[[pair]]
        return cover(mine, own) > max(cover(own, mine), cover(mine, other))

    expected = np.mean([holds(around, i) and holds(apart, i) for i in range(20)])
    both, alone = (relation(inner, around, apart, among=around), relation(inner, around, among=around))
    assert alone.holds.value == 1
    assert expected < 0.8
    assert both.holds.value == pytest.approx(expected)
    assert both.forward.value < alone.forward.value
    assert relation(inner, apart, around, among=around).holds == both.holds


def test_joined_captions_lie_in_both_and_no_control_shares_an_image_with_its_pair(monkeypatch):
    """Mixed with one of the two images, anything would cover what the two have in common."""
    outers, texts = {}, {}
    real = algebra.related

    def noted(names, operands, shown, each, *rest):
        outers[names[0]], texts[names[0]] = len(operands[1]), each
        return real(names, operands, shown, each, *rest)

    monkeypatch.setattr(algebra, "related", noted)
    found = AlgebraAnalysis(pairs=12).compute(subject())
    assert [len(relation.example.shapes) for relation in found.relations] == [2, 3, 2, 3]
    assert {relation.pairs for relation in found.relations} == {12}
    assert outers["two captions of an image, joined, lie in both"] == 2
    couples = texts["what two images share lies in the two mixed"]
    assert len(couples) == 12
    for couple, control in zip(couples, [*couples[1:], couples[0]], strict=True):
        assert len({*couple, *control}) == 4


def test_too_few_images_are_not_mixed_and_a_share_beyond_the_whole_is_refused():
    few = world().subset([0, 1, 2])
    found = AlgebraAnalysis(pairs=12).compute(Subject.of(untrained(), embed(untrained(), few, Problems())))
    assert [len(relation.example.shapes) for relation in found.relations] == [2, 2, 3]
    with pytest.raises(ConfigError, match="between 0 and 1"):
        AlgebraAnalysis(erased=1.5)
