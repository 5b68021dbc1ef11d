"""variances: what log σ varies with, in cases worked by hand; profiles against loops."""

import numpy as np
import pytest
import torch

from pcme import Gaussian
from pcme.analysis.variances import VariancesAnalysis, profile, shares
from pcme.errors import ConfigError
from tests.analysis.subjects import subject, untrained


@pytest.mark.parametrize(
    ("log_sigma", "expected"),
    [
        ([[0.0, 0.0], [1.0, 1.0]], (1, 0, 0)),
        ([[0.0, 1.0], [0.0, 1.0]], (0, 1, 0)),
        ([[0.0, 1.0], [1.0, 0.0]], (0, 0, 1)),
        ([[0.0, 1.0], [1.0, 2.0]], (0.5, 0.5, 0)),
    ],
)
def test_shares_by_hand(log_sigma, expected):
    found = shares(np.array(log_sigma))
    assert (found.item, found.dimension, found.shape) == pytest.approx(expected)


def test_shares_sum_to_one_unless_nothing_varies():
    found = shares(np.random.default_rng(0).normal(size=(7, 5)))
    assert found.item + found.dimension + found.shape == pytest.approx(1)
    assert np.isnan(shares(np.ones((3, 2))).item)


def test_a_profile_against_a_loop_and_of_a_ball():
    log_sigma = torch.tensor([[0.0, 1.0, -1.0], [0.5, 2.0, -2.0]], dtype=torch.float64)
    found = profile("captions", Gaussian(torch.zeros(2, 3).double(), log_sigma), None)
    variance = np.exp(2 * log_sigma.numpy())
    assert found.mean == pytest.approx(variance.mean(0)[[1, 0, 2]])
    assert found.equal_volume == pytest.approx(np.exp(2 * log_sigma.numpy().mean()))
    ratios = [np.prod(row) ** (1 / 3) / np.mean(row) for row in variance]
    assert found.sphericity == pytest.approx(np.mean(ratios))
    ball = profile("images", Gaussian(torch.zeros(4, 3), torch.arange(4.0)[:, None]), None)
    assert ball.sphericity == pytest.approx(1, abs=1e-6)
    assert ball.shares.item == pytest.approx(1)


def test_a_run_with_one_sigma_an_item_is_compared(tmp_path):
    untrained('method={"kind":"pcme-isotropic"}').save(tmp_path)
    found = VariancesAnalysis(isotropic=str(tmp_path)).compute(subject())
    other = subject('method={"kind":"pcme-isotropic"}')
    assert found.profiles[1].isotropic == pytest.approx(other.captions.variance[:, 0].mean().item())
    untrained().save(tmp_path)
    with pytest.raises(ConfigError, match="pcme-isotropic"):
        VariancesAnalysis(isotropic=str(tmp_path)).compute(subject())
