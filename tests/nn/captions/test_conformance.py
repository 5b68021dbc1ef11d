"""Every registered caption backbone keeps the promises of CaptionNetwork."""

import pytest
import torch

from pcme.nn import captions
from pcme.nn.backbone import Build
from pcme.nn.heads import HeadOptions
from pcme.nn.towers import CaptionTower
from tests.helpers import generator

PARAMS = {"precomputed": {"features": 7}}
# Towers of transformers have tokenisers and weights of their own: test_hub.py, test_minilm.py, test_joined.py.
everywhere = pytest.mark.parametrize("name", [n for n in captions.names() if n not in ("hub", "minilm", "joined")])
LENGTHS = torch.tensor([3, 5, 1, 2])


def built(name, *, with_sigma=True):
    backbone = captions.create(name, **PARAMS.get(name, {}))
    vectors = torch.randn(9, 6, generator=generator(1))
    return backbone.build(Build(generator(), 8, with_sigma, vectors))


def batch(name):
    if name == "precomputed":
        return torch.randn(4, 5, 7, generator=generator(2))
    return torch.randint(4, 9, (4, 5), generator=generator(2))


@everywhere
@pytest.mark.parametrize("with_sigma", [True, False])
def test_features_have_the_widths_that_are_stated(name, with_sigma):
    network = built(name, with_sigma=with_sigma)
    found = network(batch(name), LENGTHS)
    assert found.local.shape == (4, 5, network.features)
    assert found.pooled.shape == found.spread.shape == (4, network.pooled)
    assert found.mask.sum(1).tolist() == LENGTHS.tolist()


@everywhere
def test_without_lengths_all_sites_are_there(name):
    network, inputs = built(name), batch(name)
    plain, counted = network(inputs), network(inputs, torch.full((4,), 5))
    assert torch.allclose(plain.pooled, counted.pooled, atol=1e-6)
    assert plain.mask is None or plain.mask.all()


@everywhere
def test_neighbours_and_padding_do_not_matter(name):
    network, inputs = built(name), batch(name)
    tower = CaptionTower(network, HeadOptions(8), generator=generator()).eval()
    together = tower(inputs, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = tower(inputs[row : row + 1, :length], LENGTHS[row : row + 1])
        assert torch.allclose(together.mean[row], alone.mean[0], atol=1e-6)
        assert torch.allclose(together.log_sigma[row], alone.log_sigma[0], atol=1e-6)


@everywhere
def test_the_generator_alone_decides_the_weights(name):
    state = torch.random.get_rng_state()
    left, right = built(name).state_dict(), built(name).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(left[key], right[key]) for key in left)


@everywhere
def test_word_vectors_are_parameters_of_the_network(name):
    network = built(name)
    own = {id(parameter) for parameter in network.parameters()}
    assert {id(vectors) for vectors in network.word_vectors()} <= own
