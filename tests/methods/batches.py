"""What the tests of methods share: small embeddings of length one, and a truth with every case."""

import torch

from pcme import Gaussian, Points
from pcme.nn.heads import SeveralPoints

MATCHES = torch.tensor(
    [
        [True, True, False, False, False],
        [True, True, False, False, False],
        [False, True, True, False, False],
        [False, False, False, True, False],
        [False, False, False, False, True],
    ]
)
NONE, ALL = torch.zeros_like(MATCHES), torch.ones_like(MATCHES)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def unit(*shape, seed=0):
    x = torch.randn(shape, generator=generator(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(x, dim=-1)


def gaussians(n=5, dim=4, seed=0):
    noise = torch.randn(n, dim, generator=generator(seed + 100), dtype=torch.float64)
    return Gaussian(unit(n, dim, seed=seed), -2 + 0.3 * noise)


def points(n=5, dim=4, seed=0):
    return Points(unit(n, 1, dim, seed=seed))


def several(n=5, k=2, dim=4, seed=0):
    residuals = torch.rand(n, k, dim, generator=generator(seed + 100), dtype=torch.float64)
    return SeveralPoints(unit(n, k, dim, seed=seed), residuals)


def embedded(method, seed, n=5, dim=4):
    """Random embeddings of the kind that a method's heads give."""
    options = method.heads(dim)
    if options.covariance != "none":
        return gaussians(n, dim, seed)
    return several(n, options.points, dim, seed) if options.points > 1 else points(n, dim, seed)


def tensors(items):
    """What of an embedding may have a gradient."""
    if isinstance(items, Gaussian):
        return [items.mean, items.log_sigma]
    return [items.x, items.residuals] if isinstance(items, SeveralPoints) else [items.x]


def cosine(x, y):
    return sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True))
