"""`pair_nll`: the three methods, their limits, what it does to σ, and what is refused."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from pcme import Gaussian, Matches, Points
from pcme.errors import ConfigError, DataError, ShapeError
from pcme.methods.likelihood import energy_nll, overlap_energy, pair_nll
from pcme.methods.triplets import best_cosine
from tests.helpers import generator, random_gaussians
from tests.methods.batches import unit

EYE = torch.eye(3, dtype=torch.bool)
FIXED = {"scale": 8.0, "shift": 6.0}


def batch(dim=16, log_sigma=-2.0):
    return [random_gaussians(3, dim, seed=s, log_sigma=log_sigma, dtype=torch.float64) for s in (0, 1)]


@pytest.mark.parametrize("method", ["sampled", "analytic", "overlap"])
def test_matches_get_minus_log_p_and_others_minus_log_one_minus_p(method):
    sides = batch()
    truths = (torch.ones_like(EYE), torch.zeros_like(EYE), EYE)
    yes, no, mixed = (pair_nll(*sides, m, **FIXED, method=method, generator=generator()) for m in truths)
    assert torch.allclose((-yes).exp() + (-no).exp(), torch.ones_like(yes), atol=1e-9)
    assert torch.allclose(mixed, torch.where(EYE, yes, no))


def test_sampled_tends_to_analytic():
    sides = batch(dim=64, log_sigma=-3.2)
    exact = pair_nll(*sides, EYE, **FIXED, method="analytic")
    drawn = pair_nll(*sides, EYE, **FIXED, samples=400, generator=generator())
    assert torch.allclose(drawn, exact, atol=0.05)


@pytest.mark.parametrize("method", ["sampled", "analytic", "overlap"])
def test_gradients_reach_mean_sigma_scale_and_shift(method):
    inputs = [t.requires_grad_() for g in batch(dim=24, log_sigma=-3.0) for t in (g.mean, g.log_sigma)]
    inputs += [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (4.0, 2.0)]

    def nll(m1, l1, m2, l2, scale, shift):
        sides = Gaussian(m1, l1), Gaussian(m2, l2)
        return pair_nll(*sides, EYE, scale=scale, shift=shift, method=method, generator=generator())

    assert torch.autograd.gradcheck(nll, inputs, rtol=1e-3)
    assert all(gradient.any() for gradient in torch.autograd.grad(nll(*inputs).sum(), inputs))


def test_points_may_stand_on_either_side():
    images, captions = batch()
    points = captions.sample(5, generator(1))
    drawn = pair_nll(images, points, EYE, **FIXED, generator=generator())
    assert torch.equal(drawn, pair_nll(images.sample(7, generator()), points, EYE, **FIXED))


def test_one_point_without_noise_is_the_deterministic_loss():
    images, captions = (Points(g.mean[:, None]) for g in batch())
    logits = 6.0 - 8.0 * torch.cdist(images.x[:, 0], captions.x[:, 0])
    expected = -torch.nn.functional.logsigmoid(torch.where(EYE, logits, -logits))
    assert torch.allclose(pair_nll(images, captions, EYE, **FIXED), expected)


def test_overlap_is_its_formula():
    images, captions = batch()
    variance = images.variance[:, None] + captions.variance
    energy = ((images.mean[:, None] - captions.mean).square() / variance + variance.log()).mean(-1) / 2
    expected = -torch.nn.functional.logsigmoid(torch.where(EYE, 1, -1) * (6 - 8 * energy))
    a, b = torch.tensor(8.0), torch.tensor(6.0)
    assert torch.allclose(pair_nll(images, captions, EYE, **FIXED, method="overlap"), expected)
    assert torch.allclose(energy_nll(overlap_energy(images, captions), EYE, a, b), expected)


@pytest.mark.parametrize("far", [True, False])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e6])
def test_with_a_steep_sigmoid_the_loss_is_a_hinge_on_one_pair_of_samples(far, scale):
    """Paper: §A.2. A match that is too far is PVSE's MIL, its best pair; of a non-match that is too near, the farthest.

    −log mean s(l) lies between −max l and log(2J²) − max l where max l < 0; with b = a, max l is −a · hinge.
    """
    axes = torch.eye(3, dtype=torch.float64)
    x, y = (normalize(axes[axis] + 0.1 * unit(1, 7, 3, seed=n), dim=-1) for n, axis in ((1, 0), (2, int(far))))
    distances = torch.cdist(x[0], y[0])
    decisive = distances.min() if far else distances.max()
    hinge = (decisive - 1) if far else (1 - decisive)
    assert hinge > 0
    if far:
        best = best_cosine(Points(x), Points(y))
        assert torch.allclose(decisive, (2 - 2 * best).sqrt())
    x.requires_grad_()
    y.requires_grad_()
    truth = torch.tensor([[far]])
    nll = pair_nll(Points(x), Points(y), truth, scale=scale, shift=scale)
    assert 0 <= nll.item() / scale - hinge.item() <= math.log(2 * 49) / scale
    pulls = [gradient.norm(dim=-1).flatten() for gradient in torch.autograd.grad(nll, (x, y))]
    chosen = divmod(int(distances.argmin() if far else distances.argmax()), 7)
    shares = [float(pull[row] / pull.sum()) for pull, row in zip(pulls, chosen, strict=True)]
    low, high = {1.0: (0, 0.5), 1e6: (0.999, 1.001)}.get(scale, (0, 1.001))
    assert low < min(shares) <= max(shares) < high, "all of it in the limit alone"


def log_sigma_gradient(images, captions, matches):
    captions.log_sigma.requires_grad_()
    loss = pair_nll(images, captions, matches, scale=10.0, shift=10.0, method="analytic").sum()
    return torch.autograd.grad(loss, captions.log_sigma)[0][0].tolist()


def at(*places, log_sigma=-6.0):
    """Gaussians with these means."""
    mean = torch.tensor(places, dtype=torch.float64)
    return Gaussian(mean, torch.full_like(mean, log_sigma))


def test_what_matches_at_different_places_is_widened_along_them_and_what_matches_at_one_is_narrowed():
    """Paper: §3.2.2: an ambiguous item hedges. A caption in the middle of its matches; at its match; at a non-match."""
    along, across = log_sigma_gradient(at((1.4, 0), (-1.4, 0)), at((0, 0), log_sigma=-1.5), torch.ones(2, 1).bool())
    assert along < 0 < across
    assert min(log_sigma_gradient(at((0, 0)), at((0, 0), log_sigma=-1.5), torch.ones(1, 1).bool())) > 0
    assert max(log_sigma_gradient(at((0.6, 0)), at((0, 0), log_sigma=-1.5), torch.zeros(1, 1).bool())) < 0


def test_the_best_sigma_of_an_ambiguous_item_is_wide_and_of_a_clear_one_the_narrowest():
    """The same as a search: the loss by σ along the axis on which the matches differ."""
    widths = torch.linspace(-6, 1, 57, dtype=torch.float64)
    captions = Gaussian(torch.zeros(57, 2).double(), torch.stack([widths, torch.full_like(widths, -6)], 1))
    best = []
    for images in (at((1.4, 0), (-1.4, 0)), at((0, 0), (0, 0))):
        matches = torch.ones(2, 57).bool()
        loss = pair_nll(images, captions, matches, scale=10.0, shift=10.0, method="analytic").sum(0)
        best.append(float(widths[loss.argmin()].exp()))
    assert best[0] > 0.5
    assert best[1] < 0.1


def test_matches_and_bool_matrices_agree():
    sides, index = batch(), [0, 1, 2]
    relation = Matches.from_pairs(index, index, (3, 3))
    nll, same = (pair_nll(*sides, matches, **FIXED, method="analytic") for matches in (relation, EYE))
    assert torch.equal(nll, same)


def bad_mean(value):
    images, _ = batch()
    images.mean[1, 0] = value
    return images


POINTS = batch()[0].sample(2, generator())


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"matches": torch.ones(3, 2, dtype=torch.bool)}, ShapeError, r"\[3, 3\].*\[3, 2\]"),
        ({"matches": torch.ones(3, 3)}, ShapeError, "float32"),
        ({"method": "exact"}, ConfigError, "sampled, analytic, overlap"),
        ({"samples": 0}, ConfigError, "got 0"),
        ({"captions": random_gaussians(3, 5, seed=0)}, ShapeError, "16.*5"),
        ({"captions": random_gaussians(0, 16, seed=0)}, ShapeError, "got 3 and 0"),
        ({"images": bad_mean(float("nan"))}, DataError, "images.mean.*first item 1"),
        ({"images": bad_mean(float("inf"))}, DataError, "images.mean"),
        *(
            ({"images": POINTS, "method": m}, ShapeError, 'method="sampled" for points')
            for m in ("analytic", "overlap")
        ),
    ],
)
def test_wrong_input_is_named(change, error, message):
    images, captions = batch()
    with pytest.raises(error, match=message):
        pair_nll(**{"images": images, "captions": captions, "matches": EYE, **FIXED, **change})
