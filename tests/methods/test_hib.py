"""HIB against plain loops over the pairs of one modality."""

import math

import pytest
import torch

from pcme import methods
from pcme.errors import ConfigError
from pcme.methods.hib import balanced
from pcme.methods.regularisers import kl_to_standard_normal
from tests.helpers import generator
from tests.methods.batches import ALL, MATCHES, NONE, gaussians


def looped(items, drawn):
    """Samples in the order the loss draws them: J of each item on the left, then on the right."""
    x, y = items.sample(8, drawn).x, items.sample(8, drawn).x
    losses = {True: [], False: []}
    for i in range(5):
        for k in range(5):
            if i != k:
                distances = [float((a - b).norm()) for a in x[i] for b in y[k]]
                p = sum(1 / (1 + math.exp(10 * d - 10)) for d in distances) / 64
                same = bool(MATCHES[i, k] and MATCHES[k, i])
                losses[same].append(-math.log(p if same else 1 - p))
    return sum(sum(side) / len(side) for side in losses.values()) / 2


@pytest.mark.parametrize("side", ["images", "captions", "both"])
def test_the_loss_against_a_loop(side):
    images, captions = gaussians(seed=1), gaussians(seed=2)
    chosen = {"images": [images], "captions": [captions], "both": [images, captions]}[side]
    drawn = generator(3)
    expected = sum(looped(items, drawn) for items in chosen)
    objective = methods.create("hib", side=side).objective().double()
    terms = objective(images, captions, MATCHES, generator(3))
    assert math.isclose(terms.values["match"].item(), expected, rel_tol=1e-6)
    kl = sum(kl_to_standard_normal(items).item() for items in chosen)
    assert math.isclose(terms.values["kl"].item(), kl)
    assert math.isclose(terms.total.item(), expected + 0.1 * kl, rel_tol=1e-6)


@pytest.mark.parametrize("same", [NONE, ALL], ids=["no positives", "no negatives"])
def test_a_kind_of_pair_that_is_missing_counts_nothing(same):
    assert balanced(torch.ones(5, 5), same).item() == 0.5


def test_an_item_is_no_pair_with_itself_even_where_its_own_caption_is_false():
    nll = torch.ones(5, 5).fill_diagonal_(9.0)
    assert balanced(nll, NONE).item() == 0.5


def test_an_item_alone_has_no_pairs():
    one = gaussians(n=1)
    terms = methods.create("hib").objective()(one, one, torch.ones(1, 1, dtype=torch.bool), generator())
    assert terms.values["match"].item() == 0


@pytest.mark.parametrize(
    "wrong", [{"side": "left"}, {"samples": 0}, {"scale": 0.0}, {"kl_weight": -0.1}, {"covariance": "none"}]
)
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        methods.create("hib", **wrong)
