"""The soft contrastive methods against plain loops, and every switch."""

import math

import pytest
import torch

from pcme import Gaussian, methods
from pcme.errors import ConfigError
from pcme.methods.regularisers import expected_uniformity, uniformity, uniformity_sum
from tests.helpers import generator
from tests.methods.batches import MATCHES, gaussians, points


def overlap_probability(images, i, captions, j, shift=-15):
    total = 0.0
    numbers = (images.mean[i], images.log_sigma[i], captions.mean[j], captions.log_sigma[j])
    for m1, s1, m2, s2 in zip(*(x.tolist() for x in numbers), strict=True):
        v = math.exp(2 * s1) + math.exp(2 * s2)
        total += (m1 - m2) ** 2 / v + math.log(v)
    return 1 / (1 + math.exp(-(shift - 10 * total / (2 * images.dim))))


@pytest.mark.parametrize("positives", ["diagonal", "matches", "matches-weighted"])
def test_the_overlap_loss_against_a_loop(positives):
    images, captions = gaussians(seed=1), gaussians(seed=2)
    method = methods.create("pcme-overlap", positives=positives, kl_weight=0.0)
    terms = method.objective().double()(images, captions, MATCHES, generator())
    total = 0.0
    for i in range(5):
        for j in range(5):
            true = i == j if positives == "diagonal" else bool(MATCHES[i, j])
            share = int(MATCHES[:, j].sum()) if positives == "matches-weighted" and true else 1
            p = overlap_probability(images, i, captions, j)
            total -= math.log(p if true else 1 - p) / share
    assert math.isclose(terms.values["match"].item(), total / 5, rel_tol=1e-5)


def test_the_mean_only_loss_against_a_loop():
    images, captions = points(seed=1), points(seed=2)
    terms = methods.create("pcme-mu").objective().double()(images, captions, MATCHES, generator())
    total = 0.0
    for i in range(5):
        for j in range(5):
            distance = float((images.x[i] - captions.x[j]).norm())
            p = 1 / (1 + math.exp(10 * distance - 10))
            total -= math.log(p if MATCHES[i, j] else 1 - p)
    assert math.isclose(terms.values["match"].item(), total / 5, rel_tol=1e-5)
    spread = torch.cat([images.x[:, 0], captions.x[:, 0]])
    pairs = [math.exp(-2 * float((x - y).norm()) ** 2) for n, x in enumerate(spread) for y in spread[:n]]
    assert math.isclose(terms.values["uniformity"].item(), math.log(sum(pairs) / 45), rel_tol=1e-9)
    assert math.isclose(terms.total.item(), total / 5 + 0.03 * terms.values["uniformity"].item(), rel_tol=1e-5)
    assert "kl" not in terms.values


@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        ("pcme", {"kl": 0.13, "uniformity": 0.03}),
        ("pcme-isotropic", {"kl": 0.13, "uniformity": 0.03}),
        ("pcme-mu", {"uniformity": 0.03}),
        ("pcme-overlap", {"uniformity": 3.0, "fit": 3.0, "breadth": 2.0}),
    ],
)
def test_the_default_weights(kind, weights):
    assert {term: weight for term, weight in methods.create(kind).weights.items() if weight} == weights


@pytest.mark.parametrize("given", [(), ("analytic", 3, 2.0, 1.0)])
def test_the_authors_method_passes_its_parameters_on(given):
    names = ("likelihood", "samples", "scale", "shift")
    authors = methods.create("pcme-authors", **dict(zip(names, given, strict=False)))
    method, heads = authors.objective().method, authors.heads(8)
    assert tuple(getattr(method, name) for name in names) == (given or ("sampled", 7, 10.0, 10.0))
    assert (heads.log_sigma, heads.bounds) == (0.0, None)


@pytest.mark.parametrize("likelihood", ["sampled", "analytic"])
def test_uniformity_is_of_the_means_the_samples_that_are_compared_or_their_law(likelihood):
    images, captions = gaussians(seed=1), gaussians(seed=2)
    images.mean.requires_grad_()
    images.log_sigma.requires_grad_()
    draws = torch.cat([side.sample(3, stream).x for stream in (generator(7),) for side in (images, captions)])
    both = Gaussian.cat([images, captions])
    expected = {
        "means": uniformity(both.mean), "samples": uniformity(draws.flatten(0, 1)),
        "sum": uniformity_sum(draws.flatten(0, 1)), "expected": expected_uniformity(both),
    }  # fmt: skip
    for kind, value in expected.items():
        method = methods.create("pcme", likelihood=likelihood, samples=3, uniformity=kind)
        terms = method.objective().double()(images, captions, MATCHES, generator(7))
        assert torch.allclose(terms.values["uniformity"], value)
        gradient = torch.autograd.grad(terms.values["uniformity"], images.log_sigma, allow_unused=True)[0]
        assert (gradient is None) == (kind == "means")


@pytest.mark.parametrize(
    "wrong",
    [
        {"uniformity": "sigma"}, {"likelihood": "exact"}, {"positives": "all"}, {"scale": 0.0}, {"samples": 0},
        {"kl_weight": -1.0}, {"breadth_weight": -1.0}, {"covariance": "none", "likelihood": "overlap"},
        {"covariance": "none", "fit_weight": 1.0}, {"covariance": "none", "breadth_weight": 1.0},
        {"covariance": "full"}, {"sampels": 3},
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        methods.create("pcme", **wrong).heads(8)


def test_breadth_against_a_loop():
    """Cross entropy of the share of items that an item could be, by the perplexity of its row, with its width."""
    images, captions = gaussians(seed=1), gaussians(seed=2)
    objective = methods.create("pcme-overlap", shift=20.0).objective().double()
    term = objective(images, captions, MATCHES, generator()).values["breadth"]
    p = [[overlap_probability(images, i, captions, j, shift=20) for j in range(5)] for i in range(5)]
    total = 0.0
    for items, rows in ((images, p), (captions, list(zip(*p, strict=True)))):
        for width, row in zip(items.log_sigma.mean(1).tolist(), rows, strict=True):
            share = math.exp(-sum(x / sum(row) * math.log(x / sum(row)) for x in row)) / 5
            wide = 1 / (1 + math.exp(2 - 4 * (width + 2.4)))
            total -= (share * math.log(wide) + (1 - share) * math.log(1 - wide)) / 5
    assert math.isclose(term.item(), total, rel_tol=1e-5)


def test_breadth_reaches_sigma_and_nothing_else_of_the_items():
    images, captions = gaussians(seed=1), gaussians(seed=2)
    images.mean.requires_grad_()
    images.log_sigma.requires_grad_()
    objective = methods.create("pcme-overlap").objective().double()
    term = objective(images, captions, MATCHES, generator()).values["breadth"]
    on_mean, on_sigma = torch.autograd.grad(term, (images.mean, images.log_sigma), allow_unused=True)
    assert on_mean is None
    assert float(on_sigma.abs().sum()) > 0
