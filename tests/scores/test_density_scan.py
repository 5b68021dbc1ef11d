"""Scans of density scores: with proof for galleries that last, and by a separable approximation."""

import torch

from pcme import Gaussian, scores
from pcme.kernels import overlap
from pcme.scores.density_scan import DensityPlan, DensityScan, SeparableScan
from pcme.scores.gallery import Fixed
from pcme.scores.scan import NEVER
from tests.helpers import random_gaussians
from tests.scores.worlds import Lasting, assert_bounds, assert_exact, assert_shortlists, clustered, over, sides

DENSITIES = [scores.create(name) for name in ("elk", "bhattacharyya", "ppk", "overlap")]


@over("score", DENSITIES)
def test_a_part_of_the_gallery_is_scaled_as_the_whole(score):
    queries, items = sides(torch.float64)
    whole, part = score.plan(queries, items), DensityPlan(score, queries, items[:3], overlap.Extent.of(items))
    assert (whole.bytes_per_pair, whole.bytes_per_item, whole.bytes_per_candidate) == (40, 288, 64)
    first = torch.arange(9), torch.zeros(9, 3, dtype=torch.int64)
    assert torch.equal(part.candidates(*first), whole.candidates(*first))


@over("score", DENSITIES)
def test_bounds_hold_and_are_near(score):
    queries, items = sides(queries=5, items=300, dim=24, log_sigma=-1.0)
    scan = score.scan(Lasting(items))
    assert type(scan) is DensityScan
    assert scan.width(10) == 84
    assert_bounds(scan, queries, 2e-3)
    assert torch.equal(scan._widest, scan._scaled(items)[1].amax(0).double())


def test_there_is_no_bound_beyond_the_precision_of_the_tiles():
    queries, items = sides(queries=2, items=300)
    wide = Gaussian(queries.mean, queries.log_sigma + torch.tensor([[0.0], [30.0]]))
    scan = scores.create("elk").scan(Lasting(items))
    scan.top(queries, 1)
    assert scan.upper(wide, torch.zeros(2)).isposinf().tolist() == [False, True]


@over("score", DENSITIES)
def test_a_gallery_that_lasts_is_shortlisted(score):
    queries, items = clustered(5, seed=7), clustered(6000, seed=0)
    assert_shortlists(score.scan(Lasting(items)), queries)
    assert score.scan(Fixed(items)).width(10) == NEVER
    assert_exact(score, queries, items, 5)


def test_the_scaling_of_the_tiles_stays_until_another_precision_is_needed():
    items = clustered(300, seed=0)
    scan = scores.create("elk").scan(Lasting(items))
    scan.renew()
    scaling, kept = scan._scaling, scan.all_kept()[0]
    scan.gallery = Lasting(clustered(300, seed=5))
    scan.renew()
    assert scan._scaling is scaling
    assert scan.all_kept()[0] is kept
    spread = torch.linspace(-25, 25, 300)[:, None]
    scan.gallery = Lasting(Gaussian(items.mean, items.log_sigma + spread))
    scan.renew()
    assert (scan._scaling.dtype, scaling.dtype) == (torch.float64, torch.float32)
    assert scan.all_kept()[0] is not kept


@over("score", DENSITIES)
def test_the_unproven_shortlist_finds_nearly_all(score):
    queries, gallery = random_gaussians(20, 32, seed=3), random_gaussians(6000, 32, seed=4)
    exact = score.topk(queries, gallery, k=10)
    fast = score.topk(queries, gallery, k=10, exact=False)
    assert (exact.ids[:, :, None] == fast.ids[:, None]).any(2).double().mean() > 0.97
    torch.testing.assert_close(fast.scores, score(queries, gallery).gather(1, fast.ids), rtol=0, atol=0)


@over("score", DENSITIES)
def test_separable_keys_are_right_to_second_order(score):
    """Near the usual spread the approximation is the score itself, but for what is one query's own."""
    queries, items = sides(torch.float64, queries=1, items=50, log_sigma=-1.0)
    near = [Gaussian(s.mean, -1 + 0.01 * (s.log_sigma + 1)) for s in (queries, items)]
    scan = score.scan(Fixed(near[1]), exact=False)
    assert type(scan) is SeparableScan
    assert (scan.proves, scan.width(10), scan.key_width) == (False, 136, 18)
    scan.renew()
    keys = scan.keys(scan.prepare(near[0]), near[1], None, slice(0, 50))[0].double()
    m, log_sum = (part[0].double() for part in overlap.terms(*near))
    alpha, beta, gamma = score.weights(6)
    exact = -alpha * m - beta * log_sum + gamma * near[1].log_volume()
    own = (keys - exact).mean()
    torch.testing.assert_close(keys - own, exact, rtol=0, atol=3e-3 * float(exact.std()))
