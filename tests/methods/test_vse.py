"""VSE0 and VSE++: the triplet loss of cosines, in the words of their paper."""

import math

import pytest
import torch

from pcme import methods
from pcme.errors import ConfigError
from tests.helpers import generator
from tests.methods.batches import EYE, MATCHES, cosines, points, triplet_loss


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
