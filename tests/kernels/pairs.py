"""Pairs of Gaussians for the tests of the analytic match probability."""

import numpy as np
import torch

from pcme.kernels import analytic

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
