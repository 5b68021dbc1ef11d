import pytest
import torch

from pcme.errors import ShapeError
from pcme.nn import images
from pcme.nn.backbone import Build
from tests.helpers import generator

NETWORK = images.create("precomputed", features=8).build(Build(generator()))


def test_features_are_handed_on_unchanged_and_there_is_nothing_to_train():
    features = torch.randn(2, 5, 8)
    assert NETWORK(features) is features
    assert NETWORK.features == 8
    assert NETWORK.blocks() == ()
    assert not NETWORK.state_dict()


@pytest.mark.parametrize("shape", [(2, 5, 9), (2, 8), (2, 3, 8, 8)])
def test_another_shape_is_refused(shape):
    with pytest.raises(ShapeError, match=r"\[b, s, 8\], got"):
        NETWORK(torch.zeros(shape))
