"""`pair_nll`: the three methods, their limits, and what is refused."""

import pytest
import torch

from pcme import Gaussian, Matches, Points
from pcme.errors import ConfigError, DataError, ShapeError
from pcme.methods.likelihood import pair_nll
from tests.helpers import random_gaussians

EYE = torch.eye(3, dtype=torch.bool)


def batch(dtype=torch.float64, dim=16, log_sigma=-2.0):
    return [random_gaussians(3, dim, seed=s, log_sigma=log_sigma, dtype=dtype) for s in (0, 1)]


@pytest.mark.parametrize("method", ["sampled", "analytic", "overlap"])
def test_matches_get_minus_log_p_and_others_minus_log_one_minus_p(method):
    sides = batch()
    everyone = [torch.full((3, 3), value, dtype=torch.bool) for value in (True, False)]
    yes, no = (
        pair_nll(*sides, m, scale=8.0, shift=6.0, method=method, generator=torch.Generator().manual_seed(0))
        for m in everyone
    )
    assert torch.allclose((-yes).exp() + (-no).exp(), torch.ones_like(yes), atol=1e-9)
    mixed = pair_nll(*sides, EYE, scale=8.0, shift=6.0, method=method, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(mixed, torch.where(EYE, yes, no))


def test_sampled_tends_to_analytic():
    sides = batch(dim=64, log_sigma=-3.2)
    exact = pair_nll(*sides, EYE, scale=8.0, shift=6.0, method="analytic")
    generator = torch.Generator().manual_seed(0)
    drawn = pair_nll(*sides, EYE, scale=8.0, shift=6.0, samples=400, generator=generator)
    assert torch.allclose(drawn, exact, atol=0.05)


@pytest.mark.parametrize("method", ["sampled", "analytic", "overlap"])
def test_gradients_reach_mean_sigma_scale_and_shift(method):
    sides = batch(dtype=torch.float32)
    inputs = [t.requires_grad_() for g in sides for t in (g.mean, g.log_sigma)]
    inputs += [torch.tensor(v, requires_grad=True) for v in (8.0, 6.0)]
    left, right = Gaussian(*inputs[:2]), Gaussian(*inputs[2:4])
    generator = torch.Generator().manual_seed(0)
    loss = pair_nll(left, right, EYE, scale=inputs[4], shift=inputs[5], method=method, generator=generator).sum()
    for grad in torch.autograd.grad(loss, inputs):
        assert torch.isfinite(grad).all()
        assert grad.abs().sum() > 0


@pytest.mark.parametrize("method", ["analytic", "overlap"])
def test_gradcheck(method):
    sides = batch(dim=24, log_sigma=-3.0)
    inputs = [t.requires_grad_() for g in sides for t in (g.mean, g.log_sigma)]

    def run(m1, l1, m2, l2):
        return pair_nll(Gaussian(m1, l1), Gaussian(m2, l2), EYE, scale=4.0, shift=2.0, method=method)

    assert torch.autograd.gradcheck(run, inputs, rtol=1e-3)


def test_points_may_stand_on_either_side():
    images, captions = batch()
    points = captions.sample(5, torch.Generator().manual_seed(1))
    out = pair_nll(images, points, EYE, scale=8.0, shift=6.0, generator=torch.Generator().manual_seed(0))
    same = pair_nll(images.sample(7, torch.Generator().manual_seed(0)), points, EYE, scale=8.0, shift=6.0)
    assert torch.equal(out, same)


def test_one_point_without_noise_is_the_deterministic_loss():
    images, captions = (Points(g.mean[:, None]) for g in batch())
    logits = 6.0 - 8.0 * torch.cdist(images.x[:, 0], captions.x[:, 0])
    expected = -torch.nn.functional.logsigmoid(torch.where(EYE, logits, -logits))
    assert torch.allclose(pair_nll(images, captions, EYE, scale=8.0, shift=6.0), expected)


def test_matches_and_bool_matrices_agree():
    sides, index = batch(), [0, 1, 2]
    relation = Matches.from_pairs(index, index, (3, 3))
    options = {"scale": 8.0, "shift": 6.0, "method": "analytic"}
    assert torch.equal(pair_nll(*sides, relation, **options), pair_nll(*sides, EYE, **options))


def test_the_generator_decides_the_samples():
    sides = batch()
    runs = [pair_nll(*sides, EYE, scale=8.0, shift=6.0, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def bad_mean(value):
    images, _ = batch()
    mean = images.mean.clone()
    mean[1, 0] = value
    return Gaussian(mean, images.log_sigma)


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
    ],
)
def test_wrong_input_is_named(change, error, message):
    images, captions = batch()
    given = {"images": images, "captions": captions, "matches": EYE, "scale": 8.0, "shift": 6.0}
    with pytest.raises(error, match=message):
        pair_nll(**{**given, **change})


def test_points_with_a_density_method_are_refused():
    images, captions = batch()
    points = captions.sample(2, torch.Generator().manual_seed(0))
    for method in ("analytic", "overlap"):
        with pytest.raises(ShapeError, match='method="sampled" for points'):
            pair_nll(images, points, EYE, scale=1.0, shift=1.0, method=method)
