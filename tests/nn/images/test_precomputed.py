"""Precomputed features pass through, if they are of the width that was promised."""

import pytest
import torch

from pcme.errors import ConfigError, ShapeError
from pcme.nn.backbone import Build
from pcme.nn.images import create


def network(features=8):
    return create("precomputed", features=features).build(Build(torch.Generator()))


def test_features_are_handed_on_unchanged():
    given = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    assert network()(given) is given
    assert network().features == 8


def test_there_is_nothing_to_train():
    assert network().blocks() == ()
    assert not network().state_dict()


@pytest.mark.parametrize("shape", [(2, 5, 9), (2, 8), (2, 3, 8, 8)])
def test_another_shape_is_refused(shape):
    with pytest.raises(ShapeError, match=r"\[b, s, 8\], got"):
        network()(torch.zeros(shape))


def test_the_width_is_needed_and_positive():
    with pytest.raises(ConfigError, match="needs features"):
        create("precomputed")
    with pytest.raises(ConfigError, match="features: must be at least 1"):
        network(0)
