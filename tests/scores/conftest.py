"""Fixtures of the scores' tests."""

import pytest
import torch

from pcme.scores import scan as scanning
from tests.helpers import random_gaussians


@pytest.fixture
def eager_shortlist(monkeypatch):
    """Shortlists for small galleries too: when they pay is not what is tested here."""
    monkeypatch.setattr(scanning, "GROWTH", 2)
    monkeypatch.setattr(scanning, "DENSE", 250)


@pytest.fixture(scope="module", params=[1, 2, 5, 32])
def wide_sides(request):
    """Overlapping spreads in some dimensions, in double precision."""
    return tuple(
        random_gaussians(n, request.param, seed=seed, log_sigma=log_sigma, dtype=torch.float64)
        for n, seed, log_sigma in ((6, 1, -0.6), (7, 2, -0.3))
    )
