"""Every registered backbone keeps the promises of ImageNetwork. A new one is tested by existing."""

import pytest
import safetensors.torch
import torch

from pcme.nn import images
from pcme.nn.backbone import Build
from tests.helpers import generator
from tests.training.trained import same

# The cheapest member of each family; a backbone that is not named here is built as it is.
PARAMS = {
    "efficientnet-lite": {"pretrained": False},
    "joined": {"parts": [{"kind": "resnet", "depth": depth} for depth in (18, 34)]},
    "precomputed": {"features": 24},
    "resnet": {"depth": 18},
    "resnet-keras": {"repeats": (1, 1, 1, 1)},
}
# Those of other packages promise less: a size that they take, weights that are somebody's.
OWN = [name for name in images.names() if name not in ("hub", "timm")]
everywhere = pytest.mark.parametrize("name", OWN)
of_pixels = pytest.mark.parametrize("name", [name for name in OWN if name != "precomputed"])


def built(name, seed=0):
    return images.create(name, **PARAMS.get(name, {})).build(Build(generator(seed)))


def batch(name, count, height=64, width=64):
    shape = (6, 24) if name == "precomputed" else (3, height, width)
    return torch.randn(count, *shape, generator=generator(5))


def bits(network):
    return {key: value.clone() for key, value in network.state_dict().items()}


@pytest.mark.parametrize(("height", "width"), [(64, 64), (96, 96), (224, 224), (64, 96), (97, 65)])
@everywhere
def test_images_of_any_size_become_sites(name, height, width):
    network = built(name).eval()
    with torch.no_grad():
        sites = network(batch(name, 2, height, width))
    count, places, features = sites.shape
    assert (count, features) == (2, network.features)
    assert places > 1
    assert sites.isfinite().all()


@of_pixels
def test_sites_come_a_row_after_the_other(name):
    network = built(name).eval()
    plain = batch(name, 1, 128, 256)
    marked = plain.clone()
    marked[:, :, :24, -24:] += 3  # the upper right corner
    with torch.no_grad():
        change = (network(marked) - network(plain)).norm(dim=-1).squeeze(0)
    rows = round((len(change) / 2) ** 0.5)
    grid = change.view(rows, 2 * rows)
    quarters = [half.sum() for part in grid.chunk(2) for half in part.chunk(2, dim=1)]
    assert max(quarters) == quarters[1]


@everywhere
def test_gradients_reach_the_first_layer(name):
    network, pixels = built(name).train(), batch(name, 4).requires_grad_()
    network(pixels).square().mean().backward()
    for start in (pixels, *list(network.parameters())[:1]):
        assert start.grad.isfinite().all()
        assert start.grad.abs().max() > 0


@everywhere
def test_an_item_does_not_depend_on_its_neighbours_in_evaluation(name):
    network, pixels = built(name).eval(), batch(name, 5)
    with torch.no_grad():
        together = network(pixels)
        alone = torch.cat([network(item[None]) for item in pixels])
    assert (together - alone).abs().max() <= 1e-5 * together.abs().max()


@everywhere
def test_a_saved_network_comes_back_to_the_bit(name):
    first, second, pixels = built(name, 0).eval(), built(name, 1).eval(), batch(name, 2)
    second.load_state_dict(safetensors.torch.load(safetensors.torch.save(first.state_dict())))
    assert same(bits(first), bits(second))
    with torch.no_grad():
        assert torch.equal(first(pixels), second(pixels))


@everywhere
def test_blocks_hold_everything_once_and_in_order(name):
    network = built(name)
    blocks = network.blocks()
    for kind in ("parameters", "buffers"):
        inside = [id(tensor) for block in blocks for tensor in getattr(block, kind)()]
        own = [id(tensor) for tensor in getattr(network, kind)()]
        assert sorted(inside) == sorted(own)
        assert inside == own or name == "joined"  # whose networks stand beside each other


@everywhere
def test_weights_come_from_the_generator_alone(name):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = torch.get_rng_state()
        first = bits(built(name, 7))
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        assert same(bits(built(name, 7)), first)
    assert not first or not same(bits(built(name, 8)), first)


@everywhere
def test_nothing_is_left_uninitialised(name, monkeypatch):
    empty_like, made = torch.empty_like, []

    def marked(*args, **kwargs):
        made.append(empty_like(*args, **kwargs).fill_(77))
        return made[-1]

    monkeypatch.setattr(torch, "empty_like", marked)  # where memory of the real device comes from
    state = built(name).state_dict()
    assert len(made) == len(state)
    assert not any((tensor == 77).any() for tensor in state.values())


@everywhere
def test_a_frozen_network_stays_as_it_is(name):
    network, pixels = built(name), batch(name, 2)
    network.requires_grad_(False)
    network.eval()
    before = bits(network)
    for _ in range(3):
        assert not network(pixels).requires_grad
    assert same(bits(network), before)
    network.train()
    network(pixels)
    assert not before or not same(bits(network), before)  # batch norm moves where it is not frozen


@of_pixels
def test_a_chained_network_can_be_cut_between_any_two_blocks(name):
    network, pixels = built(name).eval(), batch(name, 2)
    assert network.chained
    with torch.no_grad():
        whole = network(pixels)
        for top in range(1, len(network.blocks()) + 1):
            maps = network.below(pixels, top)
            assert maps.ndim == 4
            assert torch.allclose(network.above(maps, top), whole, rtol=1e-5, atol=1e-6)
