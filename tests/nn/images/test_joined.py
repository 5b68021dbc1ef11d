"""Joined backbones: each as it is alone, and their features beside each other."""

import pytest
import torch

from pcme.errors import ConfigError
from pcme.nn import images
from pcme.nn.backbone import Build

LITE = [{"kind": "efficientnet-lite", "variant": n, "pretrained": False} for n in (0, 1, 2)]


def build(parts, seed=0):
    return images.create("joined", parts=parts).build(Build(torch.Generator().manual_seed(seed))).eval()


def pictures(size=96):
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_a_site_has_the_features_of_all():
    network, pixels = build(LITE), pictures()
    found = network(pixels)
    apart = [part(pixels) for part in network.networks]
    assert network.features == found.shape[-1] == sum(x.shape[-1] for x in apart)
    torch.testing.assert_close(found, torch.cat(apart, dim=-1))


@pytest.mark.parametrize("top", [1, 2, 5])
@torch.no_grad()
def test_what_lies_below_can_be_kept(top):
    network, pixels = build(LITE), pictures()
    torch.testing.assert_close(network.above(network.below(pixels, top), top), network(pixels))


def test_the_blocks_are_those_of_all_and_learn():
    network = build(LITE[:2])
    above = [p for block in network.blocks()[-2:] for p in block.parameters()]
    network(pictures()).square().mean().backward()
    assert all(p.grad is not None for p in above)
    everything = {id(p) for block in network.blocks() for p in block.parameters()}
    assert everything == {id(p) for p in network.parameters()}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "two or more"),
        (LITE[:1], "two or more"),
        ("efficientnet-lite", "two or more"),
        ([{"variant": 0}, LITE[0]], "two or more"),
        ([{"kind": "precomputed", "features": 4}, LITE[0]], "cannot be joined"),
        ([{"kind": "resnet", "depth": 18}, LITE[0]], "as many blocks"),
        ([{"kind": "efficientnet-light"}, LITE[0]], "Did you mean"),
    ],
)
def test_what_cannot_be_joined_is_named(parts, said):
    with pytest.raises(ConfigError, match=said):
        build(parts)
