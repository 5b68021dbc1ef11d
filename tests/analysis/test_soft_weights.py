"""soft-weights: the shares are those of the loss's own gradient, and end at one pair of samples."""

import pytest
import torch

from pcme.analysis.soft_weights import SCALES, SoftWeightsAnalysis, gradient_shares
from pcme.kernels import sampled

DISTANCES = torch.tensor([0.2, 0.5, 0.9, 1.1, 1.6], dtype=torch.float64)


@pytest.mark.parametrize(("scale", "shift"), [(0.1, 0.1), (3.0, 2.0), (10.0, 10.0), (300.0, None)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_shares_are_those_of_the_gradient_of_the_loss(sign, scale, shift):
    """On a line, samples of one item at 0 and of the other at these distances."""
    if shift is None:  # so steep that all must be on the wrong side, or nothing pulls
        shift = 5.0 if sign > 0 else 600.0
    y = DISTANCES.reshape(1, -1, 1).clone().requires_grad_()
    a, b, signs = (torch.tensor(v, dtype=torch.float64) for v in (scale, shift, [[sign]]))
    sampled.pair_nll(torch.zeros(1, 1, 1, dtype=torch.float64), y, signs, a, b).sum().backward()
    gradient = y.grad.flatten().abs()
    assert torch.allclose(gradient_shares(b - a * DISTANCES), gradient / gradient.sum(), atol=1e-9)


def test_alike_while_the_sigmoid_is_flat():
    assert torch.allclose(gradient_shares(1e-6 * DISTANCES), torch.full((5,), 0.2).double(), atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_pair_of_a_match_and_the_farthest_of_a_non_match_take_it_over(seed):
    found = SoftWeightsAnalysis(seed=seed).compute(None)
    assert [pair.matches for pair in found.pairs] == [True, False]
    for pair in found.pairs:
        assert len(pair.distances) == 49
        assert list(pair.distances) == sorted(pair.distances)
        assert all(sum(shares) == pytest.approx(1) for shares in pair.shares)
        decisive = [shares[pair.decisive] for shares in pair.shares]
        assert decisive == sorted(decisive)
        assert decisive[-1] > 5 * decisive[0]
        limit = gradient_shares(1e5 - 1e5 * torch.tensor(pair.distances, dtype=torch.float64))
        assert limit[pair.decisive] == pytest.approx(1, abs=1e-6)
    match, other = found.pairs
    assert match.distances[0] > 1 > other.distances[-1], "one is too far, the other too near"


def test_a_number_for_every_scale_of_both():
    found = SoftWeightsAnalysis(samples=2).compute(None)
    assert [number.value for number in found.numbers()] == [
        shares[pair.decisive] for pair in found.pairs for shares in pair.shares
    ]
    assert found.scales == SCALES
