"""The soft contrastive methods against plain loops, and every switch."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pcme import Gaussian, Points, methods
from pcme.errors import ConfigError
from pcme.methods.base import Terms
from pcme.methods.likelihood import overlap_energy
from pcme.methods.pcme import positive_weights
from pcme.methods.regularisers import breadth, effective_matches, kl_to_standard_normal, spread_fit, uniformity
from tests.methods.batches import MATCHES, gaussians, generator


def overlap_probability(image, caption, a, b):
    total = 0.0
    for m1, s1, m2, s2 in zip(*image, *caption, strict=True):
        v = math.exp(2 * s1) + math.exp(2 * s2)
        total += (m1 - m2) ** 2 / v + math.log(v)
    return 1 / (1 + math.exp(-(b - a * total / (2 * len(image[0])))))


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
            p = overlap_probability(
                (images.mean[i].tolist(), images.log_sigma[i].tolist()),
                (captions.mean[j].tolist(), captions.log_sigma[j].tolist()),
                10.0,
                -15.0,
            )
            total -= math.log(p if true else 1 - p) / share
    assert math.isclose(terms.values["match"].item(), total / 5, rel_tol=1e-5)


def test_the_mean_only_loss_against_a_loop():
    points = [Points(gaussians(seed=s).mean[:, None]) for s in (1, 2)]
    terms = methods.create("pcme-mu").objective().double()(*points, MATCHES, generator())
    total = 0.0
    for i in range(5):
        for j in range(5):
            distance = float((points[0].x[i] - points[1].x[j]).norm())
            p = 1 / (1 + math.exp(10 * distance - 10))
            total -= math.log(p if MATCHES[i, j] else 1 - p)
    assert math.isclose(terms.values["match"].item(), total / 5, rel_tol=1e-5)
    assert "kl" not in terms.values


def test_kl_is_that_of_torch():
    items = gaussians(seed=3)
    normal = torch.distributions.Normal(items.mean, items.sigma)
    standard = torch.distributions.Normal(torch.zeros(()).double(), torch.ones(()).double())
    expected = torch.distributions.kl_divergence(normal, standard).mean()
    assert torch.allclose(kl_to_standard_normal(items), expected)


def test_kl_of_an_isotropic_item_is_that_of_a_diagonal_one():
    items = gaussians(seed=3)
    one = Gaussian(items.mean, items.log_sigma[:, :1])
    all_of_them = Gaussian(one.mean, one.log_sigma.expand(-1, 4).clone())
    assert torch.allclose(kl_to_standard_normal(one), kl_to_standard_normal(all_of_them))


def test_uniformity_against_a_loop_and_its_order():
    x = gaussians(n=6, seed=4).mean
    pairs = [(i, j) for i in range(6) for j in range(i)]
    expected = math.log(sum(math.exp(-2 * float((x[i] - x[j]).square().sum())) for i, j in pairs) / len(pairs))
    assert math.isclose(float(uniformity(x)), expected, rel_tol=1e-9)
    assert float(uniformity(x)) < float(uniformity(x[:1].expand(6, 4).contiguous())) == 0.0


def test_the_diagonal_ignores_the_truth():
    target, weights = positive_weights(MATCHES, "diagonal")
    assert torch.equal(target, torch.eye(5, dtype=torch.bool))
    assert bool((weights == 1).all())


def test_a_captions_positives_share_one():
    target, weights = positive_weights(MATCHES, "matches-weighted")
    assert torch.allclose((weights * target).sum(0), torch.ones(5))
    assert bool((weights[~MATCHES] == 1).all())


def test_a_caption_without_any_match_weighs_nothing_wrong():
    none = torch.zeros(3, 3, dtype=torch.bool)
    target, weights = positive_weights(none, "matches-weighted")
    assert not target.any()
    assert bool((weights == 1).all())


def test_terms_add_up():
    terms = Terms({"a": torch.tensor(1.0), "b": torch.tensor(3.0)}, {"b": 0.5})
    assert float(terms.total) == 2.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"likelihood": "exact"},
        {"positives": "all"},
        {"scale": 0.0},
        {"samples": 0},
        {"kl_weight": -1.0},
        {"breadth_weight": -1.0},
        {"covariance": "none", "likelihood": "overlap"},
        {"covariance": "none", "fit_weight": 1.0},
        {"covariance": "none", "breadth_weight": 1.0},
        {"covariance": "full"},
        {"sampels": 3},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        methods.create("pcme", **wrong).heads(8)


def test_the_fit_is_least_where_sigma_is_the_spread_of_the_matches():
    """With fixed means, the σ that `spread_fit` asks for is the RMS distance to the matches."""
    images, caption = gaussians(n=5, seed=1), gaussians(n=1, seed=2)
    matches = torch.tensor([[True], [True], [False], [True], [False]])
    points = Gaussian(images.mean, torch.full_like(images.mean, -20.0))
    log_sigma = caption.log_sigma.clone().requires_grad_()
    wanted = (images.mean[matches[:, 0]] - caption.mean).square().mean(0)
    at = Gaussian(caption.mean, (0.5 * wanted.log())[None].requires_grad_())
    gradient = torch.autograd.grad(spread_fit(overlap_energy(points, at), matches), at.log_sigma)[0]
    assert float(gradient.abs().max()) < 1e-6
    elsewhere = Gaussian(caption.mean, log_sigma)
    least, other = (spread_fit(overlap_energy(points, g), matches) for g in (at, elsewhere))
    assert least.item() < other.item()


def test_the_fit_against_a_loop_and_captions_without_a_match():
    energy = torch.arange(9.0).reshape(3, 3)
    matches = torch.tensor([[True, False, False], [True, True, False], [False, False, False]])
    assert spread_fit(energy, matches).item() == ((0 + 3) / 2 + 4) / 2
    assert spread_fit(energy, torch.zeros(3, 3, dtype=torch.bool)).item() == 0


@given(st.integers(1, 6), st.integers(1, 6))
def test_effective_matches_counts_equally_likely_items(likely, others):
    p = torch.cat([torch.full((1, likely), 0.3), torch.zeros(1, others)], 1)
    assert math.isclose(effective_matches(p).item(), likely, rel_tol=1e-5)


def test_effective_matches_of_nothing_is_finite():
    assert effective_matches(torch.zeros(2, 3)).tolist() == [1.0, 1.0]


def test_breadth_asks_for_wide_items_where_many_are_plausible():
    items = Gaussian(torch.zeros(2, 3), torch.full((2, 3), -2.0).requires_grad_())
    share = torch.tensor([0.9, 0.01])
    breadth(items, share, centre=-2.0, offset=torch.tensor(-1.0)).backward()
    wide, narrow = items.log_sigma.grad.sum(1).tolist()
    assert wide < 0 < narrow  # a step against the gradient widens the first, narrows the second


def test_breadth_reaches_sigma_and_nothing_else_of_the_items():
    images, captions = gaussians(seed=1), gaussians(seed=2)
    images.mean.requires_grad_()
    images.log_sigma.requires_grad_()
    objective = methods.create("pcme-overlap").objective().double()
    term = objective(images, captions, MATCHES, generator()).values["breadth"]
    on_mean, on_sigma = torch.autograd.grad(term, (images.mean, images.log_sigma), allow_unused=True)
    assert on_mean is None
    assert float(on_sigma.abs().sum()) > 0
