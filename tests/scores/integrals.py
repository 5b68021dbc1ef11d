"""The definitions of scores as integrals in one dimension; nothing here shares a line with the code under test."""

import math
from itertools import pairwise

import pytest
import torch
from scipy import integrate

from pcme import Gaussian

# (μ₁, σ₁, μ₂, σ₂): equal, shifted, wider, narrower, both, far apart, and a hundredfold spread
PAIRS = [
    (0.3, 0.5, 0.3, 0.5),
    (0.0, 1.0, 1.5, 1.0),
    (0.2, 0.4, 0.2, 1.7),
    (0.2, 1.7, 0.2, 0.4),
    (-1.0, 0.3, 0.7, 0.9),
    (-2.0, 0.6, 2.0, 0.5),
    (0.1, 0.05, -0.2, 5.0),
]


def integral(f, pair):
    """∫ f over where either density lives, split at both means and their spreads; good to about 1e-10."""
    m1, s1, m2, s2 = pair
    ends = sorted({m + r * s for m, s in ((m1, s1), (m2, s2)) for r in (-14, -3, 0, 3, 14)})
    return math.fsum(integrate.quad(f, a, b, epsabs=1e-14, epsrel=1e-12, limit=200)[0] for a, b in pairwise(ends))


def log_density(x, mean, sigma):
    return -0.5 * ((x - mean) / sigma) ** 2 - math.log(sigma) - 0.5 * math.log(2 * math.pi)


def swapped(pair):
    return (*pair[2:], *pair[:2])


def covariance(side):
    return torch.diag_embed((2 * side.log_sigma).exp())


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def assert_is_integral(score, definition, *, additive=True):
    """In one dimension it is the integral; in several, where it is `additive`, the sum over the dimensions."""
    values = torch.tensor(PAIRS, dtype=torch.float64).T[:, :, None]
    queries, gallery = Gaussian(values[0], values[1].log()), Gaussian(values[2], values[3].log())
    expected = [definition(pair) for pair in PAIRS]
    found = [score(queries[n], gallery[n]).item() for n in range(len(PAIRS))]
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-9)
    if additive:
        whole = score(*(Gaussian(side.mean.T, side.log_sigma.T) for side in (queries, gallery)))
        assert whole.item() == pytest.approx(math.fsum(expected), rel=1e-8)
