"""Distances against integrals and other formulas; the match probability of PCME++ as a sigmoid of `csd`."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy import integrate, stats

from pcme import scores
from tests.scores.integrals import assert_is_integral, close, covariance, integral, log_density


def mean_distance(pair):
    m1, s1, m2, s2 = pair
    first, second = (
        integral(lambda x, m=m, s=s: x * math.exp(log_density(x, m, s)), pair) for m, s in ((m1, s1), (m2, s2))
    )
    return -((first - second) ** 2)


def wasserstein(pair):
    """W₂² = ∫₀¹ (F₁⁻¹(u) - F₂⁻¹(u))² du, u = Φ(z); the upper half as the mirrored lower one.

    Quantiles lose their digits as u nears 1, but not as it nears 0.
    """

    def lower_half(m1, s1, m2, s2):
        def cost(z):
            u = stats.norm.cdf(z)
            return (stats.norm.ppf(u, m1, s1) - stats.norm.ppf(u, m2, s2)) ** 2 * stats.norm.pdf(z)

        return integrate.quad(cost, -30, 0, epsabs=1e-13)[0]

    m1, s1, m2, s2 = pair
    return -lower_half(m1, s1, m2, s2) - lower_half(-m1, s1, -m2, s2)


def expected_distance(pair):
    m1, s1, m2, s2 = pair

    def inner(x):
        return integral(lambda y: (x - y) ** 2 * math.exp(log_density(y, m2, s2)), (m2, s2, m2, s2))

    # (x - y)² integrates over y to a parabola in x: three points give it exactly
    parabola = np.polyfit([-1.0, 0.0, 1.0], [inner(x) for x in (-1.0, 0.0, 1.0)], 2)
    density = (m1, s1, m1, s1)
    return -integral(lambda x: np.polyval(parabola, x) * math.exp(log_density(x, m1, s1)), density)


@pytest.mark.parametrize(
    ("name", "definition"), [("mean", mean_distance), ("w2", wasserstein), ("csd", expected_distance)]
)
def test_it_is_its_integral(name, definition):
    assert_is_integral(scores.create(name), definition)


def test_squared_distances_are_those_of_cdist(wide_sides):
    squared = torch.cdist(wide_sides[0].mean, wide_sides[1].mean).square()
    traces = [covariance(side).diagonal(dim1=-2, dim2=-1).sum(-1) for side in wide_sides]
    csd = -squared - traces[0][:, None] - traces[1]
    close(scores.create("mean")(*wide_sides), -squared)
    close(scores.create("csd")(*wide_sides), csd)
    close(scores.create("csd_prob")(*wide_sides), torch.nn.functional.logsigmoid(5 + 5 * csd))
    other = scores.create("csd_prob", scale=3.0, shift=2.0)
    close(other.probability(*wide_sides), torch.sigmoid(2 + 3 * csd))


def test_w2_is_the_bures_distance(wide_sides):
    def squared(m1, c1, m2, c2):
        root = scipy.linalg.sqrtm(c1)
        cross = scipy.linalg.sqrtm(root @ c2 @ root)
        return ((m1 - m2) ** 2).sum() + np.trace(c1 + c2 - 2 * cross).real

    parts = [[(m, c) for m, c in zip(s.mean.numpy(), covariance(s).numpy(), strict=True)] for s in wide_sides]
    expected = [[-squared(*p, *q) for q in parts[1]] for p in parts[0]]
    close(scores.create("w2")(*wide_sides), torch.tensor(expected))
