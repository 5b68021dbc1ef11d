"""Captions given as vectors: one each, or one for each token, of which some are padding."""

import pytest
import torch

from pcme.data.text.tokens import Vocab
from pcme.errors import ConfigError, ShapeError
from pcme.model import Model
from pcme.nn.backbone import Build
from pcme.nn.captions import create
from pcme.nn.heads import HeadOptions
from pcme.nn.towers import CaptionTower
from pcme.recipes import get
from pcme.training.phases import trained_groups
from tests.helpers import generator


def network(features=6):
    backbone = create("precomputed", features=features)
    return backbone.build(Build(generator(), 8))


TOKENS = torch.randn(3, 4, 6, generator=generator(1))
LENGTHS = torch.tensor([4, 1, 2])


def test_a_vector_is_a_caption_of_one_token():
    whole = TOKENS[:, 0]
    found = network()(whole)
    assert torch.equal(found.local[:, 0], whole)
    assert torch.equal(found.pooled, whole)
    assert torch.equal(found.spread, whole)
    assert found.mask is None
    counted = network()(whole, torch.ones(3, dtype=torch.long))
    assert torch.equal(counted.pooled, whole)


def test_the_mean_is_over_the_tokens_that_are_there():
    found = network()(TOKENS, LENGTHS)
    for caption, length in enumerate(LENGTHS.tolist()):
        expected = TOKENS[caption, :length].mean(0)
        assert torch.allclose(found.pooled[caption], expected, atol=1e-6)
    assert found.mask.sum(1).tolist() == LENGTHS.tolist()


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


def test_the_width_is_needed_and_positive():
    with pytest.raises(ConfigError, match="needs features"):
        create("precomputed")
    with pytest.raises(ConfigError, match="features: must be at least 1"):
        create("precomputed", features=0)


def test_a_model_learns_from_vectors_on_both_sides():
    """No pixels and no words: features of images and vectors of captions, as CLIP gives them."""
    recipe = get("aviary-tiny").changed(
        ['image={"kind":"precomputed","features":5}', 'caption={"kind":"precomputed","features":6}']
    )
    model = Model(recipe, Vocab.build(["a"]), torch.zeros(5, 8))
    groups = trained_groups(model, None, recipe.phases[0], words=False)
    optimiser = torch.optim.Adam([p for group in groups for p in group["params"]], lr=1e-2)
    images, captions = torch.randn(8, 3, 5, generator=generator(2)), TOKENS.repeat(3, 1, 1)[:8]
    captions = captions + 0.1 * torch.randn(captions.shape, generator=generator(3))
    losses = []
    for _ in range(20):
        items = model.embed_images(images), model.captions(captions, LENGTHS.repeat(3)[:8])
        terms = model.objective(*items, torch.eye(8, dtype=torch.bool), generator())
        optimiser.zero_grad()
        terms.total.backward()
        optimiser.step()
        losses.append(terms.total.item())
    assert losses[-1] < losses[0] - 0.5
