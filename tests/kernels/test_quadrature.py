"""The wide rule against integrals that share nothing with it; Gauss–Hermite against moments of a normal."""

import math

import numpy as np
import pytest
import torch

from pcme.kernels import quadrature
from studies.accuracy.imhof import match_probability
from tests.kernels.pairs import A, B, pair, probability


@pytest.mark.parametrize("nodes", [5, 24])
def test_hermite_integrates_a_standard_normal(nodes):
    z, log_weight = np.array(quadrature.hermite(nodes)).T
    moments = [np.exp(log_weight) @ z**power for power in range(9)]
    np.testing.assert_allclose(moments, [1, 0, 1, 0, 3, 0, 15, 0, 105], atol=1e-11)


@pytest.mark.parametrize(
    ("dim", "sigma", "distance", "limit"),
    [
        (1, 0.05, 0.9, 1e-4),
        (1, 0.3, 0.5, 5e-5),
        (1, 2.0, 1.0, 2e-5),
        (2, 0.3, 1.0, 1e-3),
        (2, 2.0, 1.0, 2e-3),
        (4, 0.3, 0.5, 1e-4),
        (8, 0.5, 0.5, 1e-3),
        (32, 0.1, 0.5, 2e-3),
    ],
)
def test_few_dimensions_stay_near_the_integral(dim, sigma, distance, limit):
    delta, s = pair(dim, seed=dim, distance=distance, log_sigma=math.log(sigma))
    assert probability(delta, s) == pytest.approx(match_probability(delta, s, 10, 10), abs=limit)


@pytest.mark.parametrize("distance", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("dim", "log_sigma", "extra"), [(512, -3.6, 14.0), (64, -2.0, 1.0)])
def test_one_huge_sigma_is_integrated_exactly(dim, log_sigma, extra, distance):
    delta, s = pair(dim, seed=1, distance=distance, log_sigma=log_sigma)
    s[0] += extra
    assert probability(delta, s) == pytest.approx(match_probability(delta, s, 10, 10), abs=1e-5)


def wide(*pairs, sign=1.0):
    """The rule itself for pairs, of which the second is left out by its index."""
    delta, s = (torch.tensor(np.array(part)) for part in zip(*pairs, strict=True))
    signs = torch.full((len(delta),), sign, dtype=torch.float64)
    flat = torch.tensor([0, 2])
    return quadrature.wide_rule(flat, lambda rows: (delta[rows], s[rows]), A, B, signs)


def test_chunks_change_nothing_and_both_signs_sum_to_one(monkeypatch):
    pairs = [pair(3, seed=n, distance=0.5 + n, log_sigma=n) for n in range(3)]  # the last beyond the sigmoid's reach
    whole = wide(*pairs)
    assert torch.allclose(whole.exp() + wide(*pairs, sign=-1.0).exp(), torch.ones(2).double(), atol=1e-9)
    monkeypatch.setattr(quadrature, "PAIR_MEMORY", 1)
    assert torch.equal(wide(*pairs), whole)


def test_values_are_those_of_the_stored_figures():
    """To rounding: trainings and figures that are stored depend on every digit."""
    pairs = [pair(dim, seed=dim, distance=0.8, log_sigma=-1.0) for dim in (2, 3, 5)]
    found = [math.log(probability(*one)) for one in pairs]
    assert found == pytest.approx([-0.7923557039930309, -0.7177802100337726, -1.695982591998357], rel=1e-11)
