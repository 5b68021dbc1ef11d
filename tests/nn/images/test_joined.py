import pytest
import torch

from pcme.errors import ConfigError
from pcme.nn import images
from pcme.nn.backbone import Build
from tests.helpers import generator, unless_annotations_are_enforced

LITE = [{"kind": "efficientnet-lite", "variant": n, "pretrained": False} for n in (0, 1, 2)]


def build(parts):
    return images.create("joined", parts=parts).build(Build(generator())).eval()


@torch.no_grad()
def test_a_site_has_the_features_of_all():
    network, pixels = build(LITE), torch.randn(2, 3, 96, 96, generator=generator(1))
    apart = torch.cat([part(pixels) for part in network.networks], dim=-1)
    assert network.features == apart.shape[-1]
    torch.testing.assert_close(network(pixels), apart)


@unless_annotations_are_enforced
@pytest.mark.parametrize(
    ("parts", "message"),
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
def test_what_cannot_be_joined_is_named(parts, message):
    with pytest.raises(ConfigError, match=message):
        build(parts)
