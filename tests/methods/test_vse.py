"""VSE0 and VSE++: the triplet loss of cosines, in the words of their paper."""

import math

import pytest
import torch

from pcme import methods
from pcme.errors import ConfigError
from tests.methods.batches import MATCHES, cosine, generator, points


def hinges(images, captions, negatives):
    """Faghri et al. 2018: sum or max of hinges, the diagonal positive, divided by the batch."""
    s = [[cosine(x[0], y[0]) for y in captions.x] for x in images.x]
    total = 0.0
    for i in range(5):
        for others in ([s[i][j] for j in range(5) if j != i], [s[j][i] for j in range(5) if j != i]):
            over = [max(0.0, 0.2 + other - s[i][i]) for other in others]
            total += sum(over) if negatives == "all" else max(over)
    return total / 5


@pytest.mark.parametrize(("name", "negatives"), [("vse0", "all"), ("vse++", "hardest")])
def test_the_diagonal_reproduces_the_original(name, negatives):
    images, captions = points(seed=1), points(seed=2)
    objective = methods.create(name, positives="diagonal", warm_start=0.0).objective()
    found = objective(images, captions, MATCHES, generator()).total
    assert math.isclose(found.item(), hinges(images, captions, negatives), rel_tol=1e-9)


def test_the_score_is_the_order_of_the_cosines():
    images, captions = points(seed=1), points(seed=2)
    score = methods.create("vse0").objective().score()(images, captions)
    torch.testing.assert_close(score, 2 * images.x[:, 0] @ captions.x[:, 0].T - 2)


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
