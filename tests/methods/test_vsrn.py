"""VSRN: its two terms, what its heads carry, and what is refused."""

import math

import pytest
import torch

from pcme import Points, methods
from pcme.data.text.tokens import Tokens
from pcme.embedding import Gaussian
from pcme.errors import ConfigError, ShapeError
from pcme.methods import Sizes
from pcme.nn.captioner import RegionPoints, WordPoints
from tests.helpers import generator
from tests.methods.batches import EYE, MATCHES, cosines, points, triplet_loss
from tests.models import build

IDS = torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0], [1, 3, 2, 0], [1, 3, 4, 2], [1, 5, 2, 0]])
LENGTHS = torch.tensor([4, 3, 3, 4, 3])


def told(seed=1):
    """Images with regions, and captions with words."""
    images, captions = points(seed=seed), points(seed=seed + 1)
    regions = torch.randn(5, 3, 4, generator=generator(seed), dtype=torch.float64)
    return RegionPoints(images.x, regions), WordPoints(captions.x, IDS, LENGTHS)


def complete(**params):
    """An objective with the parts that a model's sizes give it."""
    small = {"caption_hidden": 6, "caption_words": 3, "warm_start": 0.0, **params}
    objective = methods.create("vsrn", **small).objective()
    objective.complete(Sizes(dim=4, words=8), generator())
    return objective.double()


@pytest.mark.parametrize(("positives", "true"), [("matches", MATCHES), ("diagonal", EYE)])
def test_rank_is_the_hardest_triplet_of_both_ways(positives, true):
    images, captions = told()
    terms = complete(positives=positives)(images, captions, MATCHES, generator())
    expected = triplet_loss(cosines(images, captions), true.tolist(), "hardest")
    assert math.isclose(terms.values["rank"].item(), expected, rel_tol=1e-9)


def test_the_terms_weigh_as_in_the_authors_code():
    """They add a sum over 128 pairs and a mean over them; ours are both means."""
    images, captions = told()
    objective = complete(caption_dropout=0.0)
    terms = objective(images, captions, MATCHES, generator())
    rank, caption = (terms.values[name].item() for name in ("rank", "caption"))
    assert math.isclose(caption, objective.captioner(images.regions, IDS, LENGTHS, generator()).item())
    assert math.isclose(128 * terms.total.item(), 128 * rank + caption, rel_tol=1e-6)


def test_both_terms_have_gradients():
    objective, (images, captions) = complete(), told()
    leaves = [images.x, images.regions, captions.x]
    for leaf in leaves:
        leaf.requires_grad_()
    objective(images, captions, MATCHES, generator()).total.backward()
    assert all(bool(leaf.grad.isfinite().all()) and float(leaf.grad.abs().sum()) > 0 for leaf in leaves)
    assert all(bool(p.grad.isfinite().all()) for p in objective.parameters())


def test_a_model_has_a_captioner_and_its_towers_tell_it_what_it_reads_in_training():
    model = build("aviary-tiny", 'method={"kind": "vsrn", "caption_hidden": 6}')
    pixels = torch.zeros(2, 3, 16, 16, dtype=torch.uint8)
    tokens = Tokens(torch.tensor([[1, 4, 2], [1, 2, 0]]), torch.tensor([3, 2]))
    model.train()
    images, captions = model.embed_images(pixels), model.embed_tokens(tokens)
    assert images.regions.shape[::2] == (2, 16)
    assert torch.equal(captions.ids, tokens.ids)
    assert torch.equal(captions.lengths, tokens.lengths)
    assert model.objective.captioner.out.out_features == len(model.vocab)
    model.eval()
    assert {type(model.embed_images(pixels)), type(model.embed_tokens(tokens))} == {Points}


def test_captions_are_a_sentence_vector_of_length_one():
    model = build("aviary-tiny", 'method={"kind": "vsrn", "caption_weight": 0}')
    tokens = Tokens(torch.tensor([[1, 4, 2], [1, 2, 0]]), torch.tensor([3, 2]))
    sentences = model.captions.words(tokens.ids, tokens.lengths).pooled
    found = model.embed_tokens(tokens).x[:, 0]
    assert torch.allclose(found, sentences / sentences.norm(dim=1, keepdim=True), atol=1e-6)


def test_without_the_generation_term_there_is_no_captioner_and_nothing_is_carried():
    model = build("aviary-tiny", 'method={"kind": "vsrn", "caption_weight": 0}').train()
    assert model.objective.captioner is None
    assert type(model.embed_images(torch.zeros(2, 3, 16, 16, dtype=torch.uint8))) is Points


def test_captions_that_are_not_words_are_refused_by_name():
    changes = ['caption={"kind": "precomputed", "features": 5}', 'method={"kind": "vsrn"}']
    with pytest.raises(ConfigError, match=r"caption_weight: needs captions that are words.*Set caption.kind=gru"):
        build("aviary-tiny", *changes)
    build("aviary-tiny", *changes, "method.caption_weight=0")


def test_embeddings_without_regions_or_words_are_refused():
    objective, (images, captions) = complete(), told()
    for pair in ((points(), captions), (images, points())):
        with pytest.raises(ShapeError, match="reads the regions of images and the words of captions"):
            objective(*pair, MATCHES, generator())


@pytest.mark.parametrize(
    "wrong", [{"layers": 0}, {"caption_hidden": 0}, {"caption_words": 0}, {"caption_dropout": 1.0}]
)
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        methods.create("vsrn", **wrong)


@pytest.mark.parametrize(("kind", "cls"), [("pcme", Gaussian), ("vse++", Points)])
def test_other_methods_can_pool_by_gpo(kind, cls):
    model = build("aviary-tiny", f'method={{"kind": "{kind}", "pooling": "gpo"}}')
    assert model.images.heads.mean.pool is not None
    found = model.embed_images(torch.zeros(2, 3, 16, 16, dtype=torch.uint8))
    assert type(found) is cls
