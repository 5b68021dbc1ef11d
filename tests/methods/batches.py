"""What the tests of methods share: small embeddings of length one, and a truth with every case."""

import torch

from pcme import Gaussian, Points
from pcme.nn.heads import SeveralPoints
from tests.helpers import generator

MATCHES = torch.tensor(
    [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], dtype=torch.bool
)
NONE, ALL, EYE = torch.zeros_like(MATCHES), torch.ones_like(MATCHES), torch.eye(5, dtype=torch.bool)


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


def cosines(images, captions):
    """The largest cosine of every pair, as lists."""
    return [[max(cosine(x, y) for x in item for y in other) for other in captions.x] for item in images.x]


def transposed(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def triplet_loss(similarity, true, negatives, margin=0.2):
    """The loss of rows and of columns as anchors, one triplet at a time; mean over anchors."""
    total = 0.0
    for rows, marks in ((similarity, true), (transposed(similarity), transposed(true))):
        for row, marked in zip(rows, marks, strict=True):
            positives = [s for s, mark in zip(row, marked, strict=True) if mark]
            for positive in positives:
                others = [s for s, mark in zip(row, marked, strict=True) if not mark]
                if negatives == "semi-hard":
                    others = [s for s in others if s < positive]
                over = [max(0.0, margin + s - positive) for s in others]
                total += (sum(over) if negatives == "all" else max(over, default=0.0)) / len(positives)
    return total / len(similarity)
