"""Pairs of Gaussians for the tests of the analytic match probability."""

import numpy as np
import torch

from pcme.kernels import analytic
from tests.helpers import random_gaussians

A, B = (torch.tensor(10.0, dtype=torch.float64) for _ in range(2))


def pair(dim, *, seed, distance, log_sigma=-3.6, spread=0.3):
    """Δ and s of one pair."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(dim)
    delta = distance * direction / np.linalg.norm(direction)
    s = sum(np.exp(2 * rng.normal(log_sigma, spread, dim)) for _ in range(2))
    return delta, s


def probability(delta, s, scale=A, shift=B, sign=1.0):
    """The analytic match probability of one pair."""
    zero = torch.zeros(1, len(delta), dtype=torch.float64)
    sides = (torch.as_tensor(delta)[None], torch.as_tensor(s)[None]), (zero, zero)
    return float(analytic.log_match(*sides, scale, shift, sign).exp())


def assert_compiled_is_differentiable(scale, dim, log_sigma):
    """The compiled pass and the differentiable one have the same values."""
    sides = [
        (g.mean, g.variance)
        for g in (random_gaussians(n, dim, seed=n, log_sigma=log_sigma, dtype=torch.float64) for n in (6, 9))
    ]

    def gather(flat):
        i, j = flat // 9, flat % 9
        return sides[0][0][i] - sides[1][0][j], sides[0][1][i] + sides[1][1][j]

    a = torch.tensor(scale, dtype=torch.float64)
    fast = analytic.score_pairs(analytic.Moments.of_sides(*sides), gather, a, B)
    assert torch.allclose(fast, analytic.log_match(*sides, a, B), rtol=1e-9, atol=1e-12)
