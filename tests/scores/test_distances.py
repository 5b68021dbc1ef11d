"""The match probability of PCME++: a sigmoid of `csd`, and its order."""

import torch

from pcme import scores
from tests.helpers import random_gaussians


def sides():
    return random_gaussians(6, 8, seed=1, log_sigma=-1.5), random_gaussians(40, 8, seed=2)


def test_it_is_a_sigmoid_of_csd():
    queries, gallery = sides()
    p = scores.create("csd_prob", scale=3.0, shift=2.0).probability(queries, gallery)
    expected = torch.sigmoid(2 + 3 * scores.create("csd")(queries, gallery))
    torch.testing.assert_close(p, expected)


def test_it_has_the_order_of_csd():
    queries, gallery = sides()
    ranked = [scores.create(name).topk(queries, gallery, k=40).ids for name in ("csd_prob", "csd")]
    assert torch.equal(*ranked)


def test_without_spread_it_is_a_sigmoid_of_the_squared_distance():
    queries, gallery = (random_gaussians(4, 8, seed=s, log_sigma=-13.0) for s in (1, 2))
    squared = torch.cdist(queries.mean, gallery.mean).square()
    found = scores.create("csd_prob")(queries, gallery)
    torch.testing.assert_close(found, torch.nn.functional.logsigmoid(5 - 5 * squared), rtol=1e-4, atol=1e-5)
