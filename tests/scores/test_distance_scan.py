"""Scans by one product: keys in the order of the score, bounds that hold and are near."""

import pytest
import torch

from pcme import Gaussian, Points, scores
from pcme.scores.distance_scan import DistanceScan, LiftedScan, MatchScan
from pcme.scores.gallery import Fixed
from tests.helpers import random_gaussians
from tests.scores.worlds import assert_bounds, assert_exact, assert_shortlists, clustered, sides

SCANS = {  # the scan of a score, and how near its bounds are to the scores
    "mean": (DistanceScan, 5e-6),
    "csd": (DistanceScan, 5e-6),
    "csd_prob": (DistanceScan, 1.5e-5),
    "match_prob": (MatchScan, 0.04),
    "w2": (LiftedScan, 1e-5),
    "kl": (LiftedScan, 4e-5),
    "reverse_kl": (LiftedScan, 4e-5),
    "jeffreys": (LiftedScan, 0.1),
}


def scan_of(name, items, **parameters):
    return scores.create(name, **parameters).scan(Fixed(items))


def test_the_first_lists():
    items = clustered(50, seed=0)
    assert [scan_of(name, items).width(10) for name in ("csd", "w2", "match_prob")] == [42, 42, 1536]
    assert scan_of("w2", items).key_width == 0


def test_isotropic_items_count_all_dimensions():
    queries, items = (Gaussian(s.mean, s.log_sigma[:, :1]) for s in sides(queries=5, items=300))
    assert_bounds(scan_of("csd", items), queries, 1e-4)
    assert_bounds(scan_of("match_prob", items), queries, torch.inf)


@pytest.mark.parametrize("name", SCANS)
def test_bounds_hold_and_are_near(name):
    queries, items = (random_gaussians(n, 24, seed=n, spread=0.1) for n in (5, 300))
    scan, (kind, near) = scan_of(name, items), SCANS[name]
    assert type(scan) is kind
    assert_bounds(scan, queries, near)


@pytest.mark.parametrize("name", [name for name in SCANS if name != "match_prob"])
def test_the_best_are_found_by_short_lists(name):
    queries, items = clustered(6, seed=7), clustered(6000, seed=0)
    scan = scan_of(name, items)
    assert_shortlists(scan, queries)
    assert_exact(scores.create(name), queries, items, 5)
    assert getattr(scan, "by_sigma", True) == (name != "mean")


def test_points_are_ranked_by_distance():
    queries, items = (Points(clustered(n, seed=n).mean[:, None]) for n in (6, 6000))
    for name, parameters in (("mean", {}), ("match_prob", {"method": "sampled"})):
        scan = scan_of(name, items, **parameters)
        assert type(scan) is DistanceScan
        assert not scan.by_sigma
        assert_bounds(scan_of(name, items[:300], **parameters), queries, 1e-2)
        assert_shortlists(scan, queries)


def test_match_prob_is_proven_among_many_alike():
    queries, items = (clustered(n, seed=n, log_sigma=-3.6, uneven=0.1) for n in (4, 13_000))
    assert_shortlists(scan_of("match_prob", items), queries)
    assert_exact(scores.create("match_prob"), queries, items, 5)


def test_blocks_are_kept_in_chunks(monkeypatch):
    queries, items = sides(queries=3, items=300)
    whole = scan_of("match_prob", items)
    whole.top(queries, 1)
    monkeypatch.setattr("pcme.scores.distance_scan.CHUNK_BYTES", 4 * 6 * 7)
    parts = scan_of("match_prob", items)
    parts.top(queries, 1)
    for a, b in zip(whole.all_kept(), parts.all_kept(), strict=True):
        assert torch.equal(a.offset, b.offset)
        assert torch.allclose(a.ends, b.ends)
        assert a.longest == b.longest == pytest.approx(items.mean.norm(dim=1).max().item())


def test_the_centre_stays_while_items_do():
    items = clustered(100, seed=0)
    scan = scan_of("match_prob", items)
    scan.renew()
    centre = scan._centre
    assert torch.equal(centre, items.mean.mean(0))
    scan.gallery = Fixed(clustered(100, seed=5))
    scan.renew()
    assert scan._centre is centre
    scan.forget()
    scan.renew()
    assert scan._centre is not centre
