"""What several test files need: random embeddings, and whether annotations are being enforced."""

import sys

import pytest
import torch

from pcme import Gaussian

unless_annotations_are_enforced = pytest.mark.skipif(
    any(type(finder).__module__.startswith("jaxtyping") for finder in sys.meta_path),
    reason="beartype objects to the wrong type before the code under test can",
)


def random_gaussians(n, dim, *, seed, log_sigma=-3.6, spread=0.3, dtype=torch.float32):
    """n Gaussians with unit-norm means and log_sigma ~ N(log_sigma, spread²), one per dimension."""
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(n, dim, generator=generator, dtype=torch.float64)
    mean = mean / mean.norm(dim=1, keepdim=True)
    noise = torch.randn(n, dim, generator=generator, dtype=torch.float64)
    return Gaussian(mean.to(dtype), (log_sigma + spread * noise).to(dtype))
