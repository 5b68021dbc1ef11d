"""Lifts: where they are exact they are exact; where they are not, few candidates are enough."""

import numpy as np
import pytest
import torch

from pcme import Gaussian, Points, scores
from pcme.errors import FormatError
from pcme.scores.lifts import DensityLift, DistanceLift
from tests.helpers import random_gaussians


def squares(lift, queries, items):
    """Squared L2 between the two sides' vectors, as an engine computes it, in double precision."""
    left, right = (v.astype(np.float64) for v in (lift.queries(queries), lift.items(items)))
    return np.square(left[:, None] - right[None]).sum(-1)


@pytest.mark.parametrize("name", ["csd", "csd_prob", "match_prob"])
def test_the_distance_lift_is_the_expected_distance(name):
    queries, items = random_gaussians(5, 7, seed=0), random_gaussians(40, 7, seed=1)
    lift = scores.create(name).ann(7).lift()
    own = queries.variance.double().sum(1).numpy()[:, None]
    expected = -scores.create("csd")(queries, items).double().numpy()
    assert np.allclose(squares(lift, queries, items) + own, expected, atol=1e-5)


def test_means_and_points_have_no_width():
    items = random_gaussians(4, 7, seed=1)
    lift = scores.create("mean").ann(7).lift()
    same = Points(items.mean[:, None])
    assert np.array_equal(lift.items(items), lift.queries(items))
    assert np.array_equal(lift.items(same), lift.queries(items))


@pytest.mark.parametrize(("dim", "width"), [(7, 16), (15, 16), (16, 32), (256, 272), (1024, 1040)])
def test_vectors_are_multiples_of_sixteen(dim, width):
    assert scores.create("csd").ann(dim).width == width
    assert DistanceLift(width).items(random_gaussians(1, dim, seed=0)).shape == (1, width)


def test_a_density_has_no_lift_until_it_is_fitted():
    ann = scores.create("overlap").ann(7)
    assert (ann.width, ann.lift()) == (None, None)
    for name in ("elk", "bhattacharyya", "overlap"):
        assert scores.create(name).ann(7).weights == scores.create(name).weights(7)
    assert scores.create("kl").ann(7) is scores.create("w2").ann(7) is None


def uneven(count, *, seed, wide=0.0, dim=12):
    """Gaussians whose dimensions are of very different width, as training makes them."""
    items = random_gaussians(count, dim, seed=seed, log_sigma=-2.0, spread=0.4)
    return Gaussian(items.mean, items.log_sigma + torch.linspace(-1.5, 1.5, dim) + wide)


@pytest.mark.parametrize("name", ["overlap", "elk", "bhattacharyya"])
def test_the_density_lift_finds_what_plain_distances_miss(name):
    items, queries = uneven(4000, seed=0), uneven(40, seed=1, wide=0.5)
    score = scores.create(name)
    best = score.topk(queries, items, k=10).ids.numpy()

    def recall(lift):
        order = np.argsort(squares(lift, queries, items), 1)[:, :200]
        return np.mean([np.isin(b, o).mean() for b, o in zip(best, order, strict=True)])

    assert recall(score.ann(items.dim).fit(items, uneven(500, seed=2, wide=0.5))) > 0.99
    assert recall(DistanceLift(16)) < 0.9


def test_where_all_variances_are_as_usual_the_density_lift_is_the_score():
    spread = torch.linspace(-1.5, 1.5, 6).expand(300, -1)
    items = Gaussian(random_gaussians(300, 6, seed=0).mean, spread)
    queries = uneven(5, seed=1, dim=6)
    score = scores.create("elk")
    lift = score.ann(items.dim).fit(items, queries)
    order = np.argsort(squares(lift, queries, items), 1)[:, :20]
    assert np.array_equal(order, score.topk(queries, items, k=20).ids.numpy())


def test_an_item_longer_than_those_of_the_fit_lacks_nothing():
    items, queries = uneven(200, seed=0), uneven(30, seed=1)
    lift = scores.create("overlap").ann(12).fit(items, queries)
    last = lift.of_items.shape[1]
    far = Gaussian(100 * items.mean, items.log_sigma)
    assert (lift.items(items)[:, last] > 0).all()
    assert (lift.items(far)[:, last] == 0).all()


def test_a_fitted_lift_survives_being_stored():
    items, queries = uneven(200, seed=0), uneven(30, seed=1)
    lift = scores.create("overlap").ann(12).fit(items, queries)
    again = scores.create("overlap").ann(12).lift(lift.to_bytes())
    assert np.array_equal(again.items(items), lift.items(items))
    assert np.array_equal(again.queries(queries), lift.queries(queries))
    with pytest.raises(FormatError, match="lift is damaged"):
        DensityLift.from_bytes(b"junk")
