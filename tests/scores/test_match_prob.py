"""The match probability: its limits, its two methods, and top-k by bounds at any scale and spread."""

import dataclasses

import pytest
import torch

from pcme import Gaussian, Points, scores
from pcme.scores import match_prob
from pcme.scores.distance_scan import DistanceScan, MatchScan
from pcme.scores.gallery import Fixed
from pcme.scores.lifts import DistanceLift
from pcme.scores.scan import Scan
from studies.accuracy.imhof import match_probability
from tests.helpers import generator, random_gaussians
from tests.scores.worlds import assert_exact, facts, sides

ANALYTIC = scores.create("match_prob")
SAMPLED = scores.create("match_prob", method="sampled")


def test_facts():
    assert facts(SAMPLED) == (True, False, True, None, None, True)
    defaults = {"scale": 10.0, "shift": 10.0, "method": "analytic", "samples": 7, "seed": 0}
    assert ANALYTIC.record() == {"kind": "match_prob"} | defaults
    points = Points(torch.zeros(2, 1, 6))
    assert ANALYTIC.suited_to(points) == SAMPLED
    assert ANALYTIC.suited_to(sides()[0]) is ANALYTIC
    assert ANALYTIC.ann(7) == DistanceLift(16)


def test_its_scans_and_their_memory():
    queries, items = sides()
    single, several = (Points(items.sample(n, generator()).x) for n in (1, 2))
    for score, gallery, scan in [
        (ANALYTIC, items, MatchScan),
        (SAMPLED, items, Scan),
        (SAMPLED, several, Scan),
        (SAMPLED, single, DistanceScan),
    ]:
        assert type(score.scan(Fixed(gallery))) is scan
    plan = ANALYTIC.plan(queries, items)
    assert (plan.bytes_per_pair, plan.bytes_per_item, plan.bytes_per_candidate) == (320, 768, 320)
    few = ANALYTIC.plan(queries[:1], random_gaussians(600, 6, seed=0))
    assert (few.keeps_variances, few.bytes_per_candidate) == (False, 320 + 144)


def test_given_points_are_samples_and_a_single_one_is_a_mean():
    queries, gallery = sides(torch.float64)
    for count, close in ((1, 1e-12), (3, 1e-9)):
        x, y = (Points(side.sample(count, generator(1)).x) for side in (queries, gallery))
        distance = (x.x[:, None, :, None] - y.x[None, :, None]).norm(dim=-1)
        expected = torch.sigmoid(10 - 10 * distance).mean((2, 3))
        torch.testing.assert_close(SAMPLED.probability(x, y), expected, rtol=close, atol=close)


def test_it_is_the_integral():
    queries, items = sides(torch.float64, queries=2, items=3, dim=16)
    for n in range(2):
        for m in range(3):
            delta = (queries.mean[n] - items.mean[m]).numpy()
            expected = match_probability(delta, (queries.variance[n] + items.variance[m]).numpy(), 10.0, 10.0)
            assert ANALYTIC.probability(queries[n], items[m]).item() == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_sigma", [-13.0, -60.0])
@pytest.mark.parametrize("method", ["analytic", "sampled"])
def test_it_is_the_sigmoid_for_points(method, log_sigma, dtype):
    """J → ∞ and σ → 0: p = sigmoid(b - a ‖μ₁-μ₂‖), coinciding means included."""
    queries, some = (random_gaussians(n, 3, seed=n, log_sigma=log_sigma, spread=0.0, dtype=dtype) for n in (5, 6))
    gallery = Gaussian.cat([some, queries[:2]])
    score = scores.create("match_prob", scale=4.0, shift=3.0, method=method)
    logits = 3.0 - 4.0 * torch.cdist(queries.mean.double(), gallery.mean.double())
    torch.testing.assert_close(score(queries, gallery).double(), torch.sigmoid(logits).log(), rtol=0, atol=2e-4)


def test_the_sampled_method_converges_to_the_analytic_one():
    sides = [random_gaussians(n, 4, seed=n, log_sigma=-0.4, dtype=torch.float64) for n in (3, 4)]
    many, few = (scores.create("match_prob", scale=2.0, shift=3.0, method="sampled", samples=n) for n in (400, 4))
    exact = scores.create("match_prob", scale=2.0, shift=3.0).probability(*sides)
    # 400 draws a side: the error of a mean over both is at most (0.5²/400 + 0.5²/400)^½ = 0.035
    gap = many.probability(*sides) - exact
    assert gap.abs().max() < 5 * 0.035
    assert gap.abs().mean() < (few.probability(*sides) - exact).abs().mean()


@pytest.mark.parametrize("cached", [0, 1 << 28])
@pytest.mark.parametrize("log_sigma", [-3.0, 0.5])
def test_candidates_are_the_block(monkeypatch, log_sigma, cached):
    """Narrow and wide pairs; with the gallery's variances kept, and made anew."""
    monkeypatch.setattr(match_prob, "CACHED_VARIANCE", cached)
    monkeypatch.setattr(match_prob, "CHUNK_BYTES", 32 * 6 * 48)  # strips of 48 items
    queries, items = sides(items=130, log_sigma=log_sigma)
    plan = ANALYTIC.plan(queries, items)
    assert plan.keeps_variances == (cached > 0)
    whole = plan.block(slice(0, 9), slice(0, 130))
    torch.testing.assert_close(plan.block(slice(2, 9), slice(10, 130)), whole[2:, 10:], rtol=1e-9, atol=1e-9)
    rows, ids = torch.tensor([4, 0, 7]), torch.randint(130, (3, 20), generator=generator())
    expected = torch.stack([whole[row, listed] for row, listed in zip(rows, ids, strict=True)])
    torch.testing.assert_close(plan.candidates(rows, ids), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("eager_shortlist")
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (10.0, 30.0), (60.0, 20.0)])
@pytest.mark.parametrize("log_sigma", [-5.0, -2.0, -0.5])
def test_top_k_is_exact_at_any_scale_and_spread(scale, shift, log_sigma):
    """Narrow and wide rules, few and many nodes: each has its own part of the bound."""
    queries, gallery = (random_gaussians(n, 12, seed=n, log_sigma=log_sigma, spread=0.6) for n in (2, 1800))
    assert_exact(dataclasses.replace(ANALYTIC, scale=scale, shift=shift), queries, gallery, 3)
