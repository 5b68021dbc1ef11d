"""Divergences against their integrals and those of torch."""

import math

import pytest
import torch
from torch.distributions import Independent, Normal, kl_divergence

from pcme import Gaussian, scores
from tests.scores.integrals import assert_is_integral, close, integral, log_density, swapped


def kl(pair):
    m1, s1, m2, s2 = pair

    def integrand(x):
        log_p, log_q = log_density(x, m1, s1), log_density(x, m2, s2)
        return math.exp(log_p) * (log_p - log_q)

    return -integral(integrand, (m1, s1, m1, s1))


DEFINITIONS = {
    "kl": kl,
    "reverse_kl": lambda pair: kl(swapped(pair)),
    "jeffreys": lambda pair: (kl(pair) + kl(swapped(pair))) / 2,
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_it_is_its_integral(name):
    assert_is_integral(scores.create(name), DEFINITIONS[name])


def independent(side, where):
    """torch's distributions, [n, 1] or [n] with event [d]."""
    return Independent(Normal(side.mean[where], side.log_sigma.exp()[where]), 1)


def test_they_are_those_of_torch_distributions(wide_sides):
    p, q = independent(wide_sides[0], (slice(None), None)), independent(wide_sides[1], (None, slice(None)))
    there, back = kl_divergence(p, q), kl_divergence(q, p)
    for name, expected in (("kl", there), ("reverse_kl", back), ("jeffreys", (there + back) / 2)):
        close(scores.create(name)(*wide_sides), -expected)


def test_its_root_is_no_metric():
    """Paper: §B says that it is. For one mean, root(p, q) = sinh |log σ₁ − log σ₂|: the way over a third is shorter."""
    ladder = Gaussian(torch.zeros(3, 1).double(), torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64))
    squared = -scores.create("jeffreys")(ladder, ladder)
    close(squared, (ladder.log_sigma - ladder.log_sigma.T).sinh().square())
    root = squared.clamp_min(0).sqrt()
    assert root[0, 2] > 1.5 * (root[0, 1] + root[1, 2])
    printed = (squared + 0.5).sqrt()  # Eq. (B.1) as printed has ½ more, and at p = q too
    assert printed[0, 2] > printed[0, 1] + printed[1, 2]
    assert printed[0, 0] > 0


def test_the_alias():
    assert scores.create("js") == scores.create("jeffreys")
    assert set(scores.registry.aliases().values()) <= set(scores.names())
