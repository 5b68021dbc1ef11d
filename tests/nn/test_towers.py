"""Towers: pixels or features, Gaussians or points."""

import pytest
import torch
from torch import nn

from pcme import Gaussian, Points
from pcme.nn.backbone import Build, ImageNetwork
from pcme.nn.captions.gru import WordGRU
from pcme.nn.heads import HeadOptions
from pcme.nn.towers import CaptionTower, ImageTower


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Patches(ImageNetwork):
    """Each 4 x 4 patch's mean colour."""

    features = 3

    def forward(self, pixels):
        return nn.functional.avg_pool2d(pixels, 4).flatten(2).transpose(1, 2)

    def blocks(self):
        return []


@pytest.mark.parametrize(
    ("covariance", "kind", "width"), [("diagonal", Gaussian, 8), ("isotropic", Gaussian, 1), ("none", Points, None)]
)
def test_what_a_tower_gives(covariance, kind, width):
    options = HeadOptions(8, covariance=covariance)
    tower = ImageTower(Patches(), options, generator=generator())
    words = WordGRU(Build(generator(), 8, word_vectors=torch.randn(9, 5)))
    captions = CaptionTower(words, options, generator=generator())
    found = [tower(torch.rand(2, 3, 16, 16)), captions(torch.tensor([[1, 4, 2], [1, 2, 0]]), torch.tensor([3, 2]))]
    for items in found:
        assert isinstance(items, kind)
        assert len(items) == 2
        assert items.dim == 8
        if width is not None:
            assert items.log_sigma.shape == (2, width)


@pytest.mark.parametrize("count", [2, 4])
def test_a_tower_gives_several_points(count):
    options = HeadOptions(8, covariance="none", points=count)
    tower = ImageTower(Patches(), options, generator=generator())
    words = WordGRU(Build(generator(), 8, with_sigma=False, word_vectors=torch.randn(9, 5)))
    captions = CaptionTower(words, options, generator=generator())
    for items in (
        tower(torch.rand(2, 3, 16, 16)),
        captions(torch.tensor([[1, 4, 2], [1, 2, 0]]), torch.tensor([3, 2])),
    ):
        assert items.x.shape == items.residuals.shape == (2, count, 8)
        assert torch.allclose(items.x.norm(dim=-1), torch.ones(2, count))
        assert type(Points.cat([items, items])) is Points  # what is kept has no residuals


def test_features_computed_before_give_the_same_embeddings():
    tower = ImageTower(Patches(), HeadOptions(8), generator=generator())
    pixels = torch.rand(2, 3, 16, 16, generator=generator(1))
    direct, cached = tower(pixels), tower(tower.network(pixels))
    assert torch.equal(direct.mean, cached.mean)
    assert torch.equal(direct.log_sigma, cached.log_sigma)


def test_an_embedding_does_not_depend_on_its_neighbours():
    tower = ImageTower(Patches(), HeadOptions(8), generator=generator()).eval()
    pixels = torch.rand(4, 3, 16, 16, generator=generator(1))
    together = tower(pixels).mean
    alone = torch.cat([tower(pixels[i : i + 1]).mean for i in range(4)])
    assert torch.allclose(together, alone, atol=1e-6)


def test_log_sigma_starts_where_it_is_told():
    tower = ImageTower(Patches(), HeadOptions(64, log_sigma=-3.5), generator=generator())
    assert abs(float(tower(torch.rand(32, 3, 16, 16)).log_sigma.detach().mean()) + 3.5) < 0.3
