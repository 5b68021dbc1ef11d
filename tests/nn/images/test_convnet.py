import pytest
import torch

from pcme.nn.backbone import Build
from pcme.nn.images import create
from tests.helpers import generator


@pytest.mark.parametrize(("height", "width", "sites"), [(16, 16, 4), (64, 64, 64), (64, 96, 96), (17, 20, 9)])
def test_three_blocks_halve_the_image_and_the_last_does_not(height, width, sites):
    features = create("convnet").build(Build(generator())).eval()(torch.zeros(1, 3, height, width))
    assert features.shape == (1, sites, 192)
    assert features.is_contiguous()  # for what follows


def test_a_pixel_reaches_exactly_the_sites_around_it():
    network = create("convnet").build(Build(generator())).eval()
    dark, lit = torch.zeros(1, 3, 64, 96), torch.zeros(1, 3, 64, 96)
    lit[..., 0, 95] = 1.0
    with torch.no_grad():
        changed = (network(lit) != network(dark)).any(-1).view(8, 12)
    # A site sees 15 pixels to either side of the one at its upper left, 8 times its number.
    expected = torch.zeros(8, 12, dtype=torch.bool)
    expected[:2, 10:] = True
    assert torch.equal(changed, expected)


def test_widths_are_a_choice():
    network = create("convnet", widths=(8, 16)).build(Build(generator()))
    assert network.features == 16
    assert [len(list(block.parameters())) for block in network.blocks()] == [3, 3]
    assert network(torch.zeros(2, 3, 16, 16)).shape == (2, 64, 16)


def test_the_first_weights_keep_the_scale_of_what_passes():
    network = create("convnet", widths=(64, 64, 64, 64)).build(Build(generator()))
    for block in network.blocks():
        weight = block[0].weight
        assert weight.std().item() == pytest.approx((2 / weight[0].numel()) ** 0.5, rel=0.1)
