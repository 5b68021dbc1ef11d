"""Scores of overlapping densities against their integrals and textbook forms."""

import math

import pytest
import torch
from torch.distributions import MultivariateNormal

from pcme import scores
from pcme.errors import ConfigError
from tests.scores.integrals import assert_is_integral, close, covariance, integral, log_density
from tests.scores.worlds import assert_exact, sides

SCALE, SHIFT = 7.0, -3.0  # of `overlap`, away from its defaults


def power_integral(pair, power):
    """log ∫ (p q)^power."""
    m1, s1, m2, s2 = pair
    peak = (m1 / s1**2 + m2 / s2**2) / (1 / s1**2 + 1 / s2**2)
    width = (power * (1 / s1**2 + 1 / s2**2)) ** -0.5

    def integrand(x):
        return math.exp(power * (log_density(x, m1, s1) + log_density(x, m2, s2)))

    return math.log(integral(integrand, (peak, width, peak, width)))


def overlap(pair):
    """sigmoid(b + a log ∫pq) in one dimension, once log 2π is taken out of the integral."""
    logit = SHIFT + SCALE * (power_integral(pair, 1.0) + 0.5 * math.log(2 * math.pi))
    return -math.log1p(math.exp(-logit))


def test_they_are_their_integrals():
    assert_is_integral(scores.create("elk"), lambda pair: power_integral(pair, 1.0))
    assert_is_integral(scores.create("bhattacharyya"), lambda pair: power_integral(pair, 0.5))
    for rho in (0.3, 0.75, 1.7):
        assert_is_integral(scores.create("ppk", rho=rho), lambda pair, rho=rho: power_integral(pair, rho))
    assert_is_integral(scores.create("overlap", scale=SCALE, shift=SHIFT), overlap, additive=False)


def test_elk_is_the_density_of_the_difference(wide_sides):
    total = (covariance(wide_sides[0])[:, None] + covariance(wide_sides[1])[None]).contiguous()
    difference = MultivariateNormal(torch.zeros(wide_sides[0].dim).double(), total)
    close(scores.create("elk")(*wide_sides), difference.log_prob(wide_sides[0].mean[:, None] - wide_sides[1].mean))


def test_ppk_is_the_family_of_both(wide_sides):
    for rho, name in ((1.0, "elk"), (0.5, "bhattacharyya")):
        torch.testing.assert_close(scores.create("ppk", rho=rho)(*wide_sides), scores.create(name)(*wide_sides))
    for rho in (0.0, -1.0, math.inf):
        with pytest.raises(ConfigError, match="rho"):
            scores.create("ppk", rho=rho)


def test_ppk_above_one_is_searched_without_the_bound():
    score = scores.create("ppk", rho=2.0)
    assert_exact(score, *sides(), 5)
    assert score.ann(6) is None


def test_bhattacharyya_is_the_textbook_distance(wide_sides):
    c1, c2 = covariance(wide_sides[0])[:, None], covariance(wide_sides[1])[None]
    middle = (c1 + c2) / 2
    delta = wide_sides[0].mean[:, None] - wide_sides[1].mean
    mahalanobis = (delta * torch.linalg.solve(middle, delta)).sum(-1)
    volumes = torch.logdet(middle) - (torch.logdet(c1) + torch.logdet(c2)) / 2
    close(scores.create("bhattacharyya")(*wide_sides), -mahalanobis / 8 - volumes / 2)


@pytest.mark.parametrize(("scale", "shift"), [(10.0, -15.0), (SCALE, SHIFT)])
def test_overlap_is_the_squashed_elk(wide_sides, scale, shift):
    per_dimension = scores.create("elk")(*wide_sides) / wide_sides[0].dim + 0.5 * math.log(2 * math.pi)
    options = {} if scale == 10 else {"scale": scale, "shift": shift}
    found = scores.create("overlap", **options)(*wide_sides)
    torch.testing.assert_close(found, torch.nn.functional.logsigmoid(shift + scale * per_dimension))
