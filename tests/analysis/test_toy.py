"""toy: the caption that fits all covers all; another seed gives another plane."""

import numpy as np
import pytest

from pcme.analysis.toy import CLASSES, ToyAnalysis


@pytest.fixture(scope="module")
def plane(one_thread):
    return ToyAnalysis().compute(None)


def test_the_generic_caption_covers_every_class_and_everything_else_has_its_own(plane):
    assert (plane.generic_covers, plane.own_at_99, plane.others_at_99) == (1, 1, 0)
    assert plane.wider > 2
    assert len(plane.centres) == len(CLASSES)
    assert {item.klass for item in plane.images} == set(range(len(CLASSES)))
    for number, centre in enumerate(plane.centres):
        own = [(item.x, item.y) for item in plane.images if item.klass == number]
        assert np.mean(own, 0) == pytest.approx(centre, abs=1e-5)


def test_another_seed_gives_another_plane():
    assert ToyAnalysis(steps=3).compute(None) != ToyAnalysis(steps=3, seed=1).compute(None)
