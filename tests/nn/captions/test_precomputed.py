import pytest
import torch

from pcme.errors import ShapeError
from pcme.nn.backbone import Build
from pcme.nn.captions import create
from pcme.nn.heads import HeadOptions
from pcme.nn.towers import CaptionTower
from tests.helpers import generator


def network(features=6):
    backbone = create("precomputed", features=features)
    return backbone.build(Build(generator(), 8))


TOKENS = torch.randn(3, 4, 6, generator=generator(1))
LENGTHS = torch.tensor([4, 1, 2])


def test_a_vector_is_a_caption_of_one_token():
    whole = TOKENS[:, 0]
    features = network()(whole)
    counted = network()(whole, torch.ones(3, dtype=torch.long))
    assert features.mask is None
    assert all(torch.equal(x, whole) for x in (features.local[:, 0], features.pooled, features.spread, counted.pooled))


def test_the_mean_is_over_the_tokens_that_are_there():
    found = network()(TOKENS, LENGTHS)
    for caption, length in enumerate(LENGTHS.tolist()):
        expected = TOKENS[caption, :length].mean(0)
        assert torch.allclose(found.pooled[caption], expected, atol=1e-6)


@pytest.mark.parametrize("padding", [0.0, 1e30, float("nan")])
def test_what_pads_a_file_does_not_matter(padding):
    tower = CaptionTower(network(), HeadOptions(8), generator=generator()).eval()
    padded = TOKENS.clone()
    padded[1, 1:] = padded[2, 2:] = padding
    left, right = tower(TOKENS, LENGTHS), tower(padded, LENGTHS)
    assert torch.equal(left.mean, right.mean)
    assert torch.equal(left.log_sigma, right.log_sigma)


@pytest.mark.parametrize("covariance", ["diagonal", "isotropic", "none"])
def test_the_heads_project_even_where_the_width_happens_to_fit(covariance):
    options = HeadOptions(6, covariance=covariance)
    tower = CaptionTower(network(6), options, generator=generator())
    assert tower.heads.mean.base.weight.shape == (6, 6)
    assert tower(TOKENS, LENGTHS).dim == 6


@pytest.mark.parametrize("wrong", [torch.zeros(2, 5), torch.zeros(2, 3, 5), torch.zeros(6), torch.ones(2, 6).long()])
def test_other_shapes_and_ids_are_refused(wrong):
    with pytest.raises(ShapeError, match=r"\[b, 6\] or \[b, l, 6\], got"):
        network()(wrong)


@pytest.mark.parametrize("lengths", [[0, 1, 1], [5, 1, 1]])
def test_lengths_must_fit(lengths):
    with pytest.raises(ShapeError, match="from 1 to 4"):
        network()(TOKENS, torch.tensor(lengths))
