import pytest
import torch
from torch import nn

from pcme import Points
from pcme.nn.backbone import Build, ImageNetwork
from pcme.nn.captions.gru import WordGRU
from pcme.nn.heads import HeadOptions
from pcme.nn.towers import CaptionTower, ImageTower
from tests.helpers import generator


class Patches(ImageNetwork):
    """Each 4 x 4 patch's mean colour."""

    features = 3

    def forward(self, pixels):
        return nn.functional.avg_pool2d(pixels, 4).flatten(2).transpose(1, 2)

    def blocks(self):
        return []


def embedded(options):
    """Two images and two captions, by towers with these heads."""
    images = ImageTower(Patches(), options, generator=generator())
    words = WordGRU(Build(generator(), 8, options.covariance != "none", torch.randn(9, 5)))
    captions = CaptionTower(words, options, generator=generator())
    return images(torch.rand(2, 3, 16, 16)), captions(torch.tensor([[1, 4, 2], [1, 2, 0]]), torch.tensor([3, 2]))


@pytest.mark.parametrize(("covariance", "width"), [("diagonal", 8), ("isotropic", 1)])
def test_a_tower_gives_gaussians(covariance, width):
    for items in embedded(HeadOptions(8, covariance=covariance)):
        assert items.mean.shape == (2, 8)
        assert items.log_sigma.shape == (2, width)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_tower_gives_points(count):
    for items in embedded(HeadOptions(8, covariance="none", points=count)):
        assert items.x.shape == (2, count, 8)
        assert torch.allclose(items.x.norm(dim=-1), torch.ones(2, count))
        assert count == 1 or items.residuals.shape == items.x.shape
        assert type(Points.cat([items, items])) is Points  # what is kept has no residuals


def test_features_computed_before_give_the_same_embeddings():
    tower = ImageTower(Patches(), HeadOptions(8), generator=generator())
    pixels = torch.rand(2, 3, 16, 16, generator=generator(1))
    direct, cached = tower(pixels), tower(tower.network(pixels))
    assert torch.equal(direct.mean, cached.mean)
    assert torch.equal(direct.log_sigma, cached.log_sigma)


def test_log_sigma_starts_where_it_is_told():
    tower = ImageTower(Patches(), HeadOptions(64, log_sigma=-3.5), generator=generator())
    assert abs(float(tower(torch.rand(32, 3, 16, 16)).log_sigma.detach().mean()) + 3.5) < 0.3
