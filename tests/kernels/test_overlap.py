"""M and L for tensors: ranges, gradients, the blocks that serve other devices."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pcme import Gaussian
from pcme.errors import DataError
from pcme.kernels import overlap
from pcme.kernels.devices import torch_only
from tests.helpers import random_gaussians


def direct(left, right):
    s = left.variance[:, None].double() + right.variance.double()
    delta = left.mean[:, None].double() - right.mean.double()
    return (delta.square() / s).sum(-1), s.log().sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_sigma", [-13.0, -3.6, 0.0, 3.0])
def test_terms_equal_the_formula_at_any_level(dtype, log_sigma):
    sides = [random_gaussians(n, 10, seed=n, log_sigma=log_sigma, dtype=dtype) for n in (4, 9)]
    close = 1e-5 if dtype == torch.float32 else 1e-12
    for ours, expected in zip(overlap.terms(*sides), direct(*sides), strict=True):
        assert torch.allclose(ours.double(), expected, rtol=close)


def test_a_wide_range_of_sigma_is_computed_in_double_precision():
    left, right = (random_gaussians(n, 6, seed=n) for n in (3, 5))
    log_sigma = right.log_sigma.clone()
    log_sigma[2] += 16
    log_sigma[3] -= 14
    right = Gaussian(right.mean, log_sigma)
    assert overlap.Extent.of(right).scaling(left).dtype == torch.float64
    for ours, expected in zip(overlap.terms(left, right), direct(left, right), strict=True):
        assert torch.allclose(ours.double(), expected, rtol=1e-6)


def test_an_absurd_range_is_an_error_that_says_so():
    left = random_gaussians(2, 3, seed=0)
    with pytest.raises(DataError, match="computed up to 80"):
        overlap.terms(left, Gaussian(left.mean, torch.tensor([[200.0], [-200.0]])))


@pytest.mark.parametrize("widths", [7, 1])
def test_gradients_are_finite_differences(widths, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    sides = [random_gaussians(n, 7, seed=n, log_sigma=0, dtype=torch.float64) for n in (3, 4)]
    inputs = [t.requires_grad_() for g in sides for t in (g.mean, g.log_sigma[:, :widths].clone())]

    def run(m1, l1, m2, l2):
        return overlap.terms(Gaussian(m1, l1), Gaussian(m2, l2))

    assert torch.autograd.gradcheck(run, inputs, rtol=1e-6, atol=1e-7)


def test_blocks_of_dimensions_have_the_values_and_gradients_of_the_loops(monkeypatch):
    sides = [random_gaussians(n, 10, seed=n, dtype=torch.float64) for n in (4, 9)]
    scaling = overlap.Extent.of(sides[1]).scaling(sides[0])
    raw = [t.requires_grad_() for side in sides for t in scaling.apply(side)]
    monkeypatch.setattr(overlap, "BLOCK_BYTES", 900)  # three dimensions at a time
    results = []
    for form in (overlap._Blocked, overlap._Fused):
        m, log_sum = form.apply(*raw)
        results.append((m, log_sum, *torch.autograd.grad((m.sin() + log_sum.cos()).sum(), raw)))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


def test_blocks_never_hold_an_array_of_queries_by_items_by_dimensions(monkeypatch):
    queries, gallery = (random_gaussians(n, 64, seed=n) for n in (32, 48))
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for each in out if isinstance(out, (tuple, list)) else (out,):
                largest = max(largest, each.numel())
            return out

    monkeypatch.setattr(overlap, "BLOCK_BYTES", 4 * 32 * 48 * 2)
    log_sigma = queries.log_sigma.requires_grad_()
    with torch_only(), Watch():
        m, log_sum = overlap.terms(Gaussian(queries.mean, log_sigma), gallery)
        (m + log_sum).sum().backward()
    assert largest == 2 * 32 * 48
