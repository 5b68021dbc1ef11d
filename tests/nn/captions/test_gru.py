import pytest
import torch

from pcme.errors import ConfigError
from pcme.nn.backbone import Build
from pcme.nn.captions.gru import WordGRU
from tests.helpers import generator

VECTORS = torch.randn(9, 5, generator=generator(1))


def made(readout="final", *, dim=8, with_sigma=True):
    return WordGRU(Build(generator(), dim, with_sigma, VECTORS), readout)


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
