import pytest
import torch
from torch.nn import functional as F

from pcme.errors import ConfigError
from pcme.nn.backbone import Build
from pcme.nn.captions.gru import WordGRU
from pcme.nn.heads import HeadOptions
from pcme.nn.towers import CaptionTower
from tests.helpers import generator

VECTORS = torch.randn(9, 5, generator=generator(1))


def made(readout="final", *, dim=8, with_sigma=True, hidden=None, shared=False):
    return WordGRU(Build(generator(), dim, with_sigma, VECTORS), readout, hidden, shared=shared)


IDS = torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0], [1, 2, 0, 0]])
LENGTHS = torch.tensor([4, 3, 2])


def test_sites_are_the_word_vectors_and_mean_and_sigma_have_their_own_sentence_vectors():
    network = made()
    features = network(IDS, LENGTHS)
    assert torch.equal(features.local, network.words.weight[IDS])
    assert features.mask.tolist() == [[True, True, True, True], [True, True, True, False], [True, True, False, False]]

    assert not torch.allclose(features.pooled, features.spread)
    alone = made(with_sigma=False)(IDS, LENGTHS)
    assert torch.equal(alone.pooled, alone.spread)


def test_the_given_vectors_are_copied_not_shared():
    with torch.no_grad():
        made().words.weight.zero_()
    assert float(VECTORS.abs().sum()) > 0


def test_read_at_the_last_word_the_backward_half_has_seen_that_word_alone():
    """The authors' read-out: the same for every caption that ends alike (FACTS 0.3)."""
    ours, theirs = made()(IDS, LENGTHS), made("last-word")(IDS, LENGTHS)
    for own, other in ((ours.pooled, theirs.pooled), (ours.spread, theirs.spread)):
        assert torch.equal(own[:, :4], other[:, :4])
        assert torch.allclose(other[:, 4:], other[:1, 4:].expand(3, -1), atol=1e-6)
        assert not torch.allclose(own[:, 4:], other[:, 4:])


def test_an_odd_dimension_is_refused():
    with pytest.raises(ConfigError, match="even"):
        made(dim=7)


@pytest.mark.parametrize("readout", ["final", "last-word"])
def test_a_width_of_its_own_is_projected_once_for_the_mean_and_once_for_sigma(readout):
    """Paper: §C.3, a wide GRU and two projections to a plane; here to an odd number of dimensions."""
    network = made(readout, dim=3, hidden=6)
    assert (network.pooled, network.projected, network.gru.hidden) == (6, False, 3)
    options = HeadOptions(3, mean_attention=False, sigma_attention=False, bounds=None)
    tower = CaptionTower(network, options, generator=generator())
    features, found = network(IDS, LENGTHS), tower(IDS, LENGTHS)
    mean, sigma = tower.heads.mean, tower.heads.sigma
    base = features.pooled @ mean.base.weight.T + mean.base.bias
    assert torch.allclose(found.mean, F.normalize(F.layer_norm(base, (3,)), dim=1), atol=1e-6)
    spread = features.spread @ sigma.base.weight.T + sigma.base.bias + sigma.offset
    assert torch.allclose(found.log_sigma, spread, atol=1e-6)


def test_a_width_is_that_of_the_embedding_unless_it_is_told():
    plain, told, wide = made(), made(hidden=8), made(dim=4, hidden=8)
    assert (plain.projected, told.projected, wide.projected) == (True, True, False)
    for other in (told, wide):
        assert all(torch.equal(value, other.state_dict()[key]) for key, value in plain.state_dict().items())


@pytest.mark.parametrize("readout", ["final", "last-word"])
def test_a_shared_gru_is_one_sentence_vector_with_a_projection_for_the_mean_and_one_for_sigma(readout):
    """Paper: §C.3."""
    network = made(readout, dim=2, hidden=6, shared=True)
    features, alone = network(IDS, LENGTHS), made(readout, dim=2, hidden=6, with_sigma=False)(IDS, LENGTHS)
    assert torch.equal(features.pooled, features.spread)
    assert torch.equal(features.pooled, alone.pooled)
    options = HeadOptions(2, mean_attention=False, sigma_attention=False, mean_norm=False, bounds=None)
    tower = CaptionTower(network, options, generator=generator())
    found, mean, sigma = tower(IDS, LENGTHS), tower.heads.mean.base, tower.heads.sigma
    assert torch.allclose(found.mean, F.normalize(F.linear(features.pooled, mean.weight, mean.bias), dim=1), atol=1e-6)
    spread = F.linear(features.pooled, sigma.base.weight, sigma.base.bias) + sigma.offset
    assert torch.allclose(found.log_sigma, spread, atol=1e-6)


@pytest.mark.parametrize("hidden", [None, 8])
def test_a_shared_gru_without_projections_is_refused(hidden):
    with pytest.raises(ConfigError, match=r"^caption\.shared: must be with caption\.hidden set to another number"):
        made(dim=8, hidden=hidden, shared=True)
