"""VSE0 and VSE++: the triplet loss of cosines, in the words of their paper."""

import math

import pytest
import torch

from pcme import methods
from pcme.errors import ConfigError
from pcme.recipes.schema import part
from tests.helpers import generator
from tests.methods.batches import EYE, MATCHES, cosines, points, triplet_loss
from tests.models import TINY, build


@pytest.mark.parametrize(("name", "negatives"), [("vse0", "all"), ("vse++", "hardest")])
def test_the_diagonal_reproduces_the_original(name, negatives):
    """Faghri et al. 2018: sum or max of hinges, the diagonal positive, divided by the batch."""
    images, captions = points(seed=1), points(seed=2)
    objective = methods.create(name, positives="diagonal", warm_start=0.0).objective()
    total = objective(images, captions, MATCHES, generator()).total
    expected = triplet_loss(cosines(images, captions), EYE.tolist(), negatives)
    assert math.isclose(total.item(), expected, rel_tol=1e-9)


def test_vsepp_starts_as_vse0_and_says_when_that_is_over():
    images, captions = points(seed=1), points(seed=2)
    plain, warming = (methods.create(name).objective() for name in ("vse0", "vse++"))
    warming.set_total_steps(2)
    losses = [o(images, captions, MATCHES, generator()).total for o in (plain, warming)]
    assert torch.equal(*losses)
    assert warming.report() == {"hardest": 1.0}
    assert plain.report() == {}


@pytest.mark.parametrize(
    "wrong", [{"margin": 0.0}, {"negatives": "some"}, {"positives": "all"}, {"warm_start": -0.1}, {"warm_start": 1.0}]
)
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        methods.create("vse++", **wrong)


@pytest.mark.parametrize("name", ["vse0", "vse++"])
@torch.no_grad()
def test_the_linear_head_is_theirs(name):
    """Images: the mean over the sites, a linear map, length one. Captions: the GRU's vector, length one."""
    method = part(name, mean_attention=False, mean_norm=False)
    model = build(TINY.model_copy(update={"method": method, "dim": 4}), spread=3.0)
    pixels = torch.randint(256, (2, 3, 16, 16), dtype=torch.uint8, generator=generator(1))
    layer = model.images.heads.mean.base
    for sites, found in zip(model.features(pixels).tolist(), model.embed_images(pixels).x[:, 0], strict=True):
        pooled = [sum(column) / len(sites) for column in zip(*sites, strict=True)]
        rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
        mapped = [sum(w * x for w, x in zip(row, pooled, strict=True)) + offset for row, offset in rows]
        assert found.tolist() == pytest.approx(scaled(mapped), abs=1e-5)
    tokens = model.tokeniser.encode_batch([["a", "red", "bird"], ["sky"]])
    sentences = model.captions.words(tokens.ids, tokens.lengths).pooled.tolist()
    for sentence, found in zip(sentences, model.embed_tokens(tokens).x[:, 0].tolist(), strict=True):
        assert found == pytest.approx(scaled(sentence), abs=1e-5)
    learned = {key for key, _ in model.named_parameters() if ".heads." in key}
    assert learned == {"images.heads.mean.base.weight", "images.heads.mean.base.bias"}


def scaled(vector):
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]
