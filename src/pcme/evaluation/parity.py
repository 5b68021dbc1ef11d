"""Parity: whether a device gives the numbers that the compiled loops of the CPU give.

Every score, every top-k and every method's loss with its gradients is computed twice on the same random embeddings: on
the CPU by compiled loops, and on the device by torch. For the CPU itself the second is the path of other devices.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pcme import methods, scores
from pcme.core.random import torch_stream
from pcme.embedding import Embedding, Gaussian
from pcme.kernels.devices import torch_only
from pcme.methods.base import Method
from pcme.nn.backbone import Features
from pcme.nn.heads import HeadSizes
from pcme.nn.towers import Heads
from pcme.scores.base import Score

TOLERANCE = 1e-5
"""The largest difference of values of order one that rounding in single precision explains."""
DIM, ITEMS, BATCH = 64, 300, 24
Numbers = list[Shaped[Tensor, "..."]]


@dataclass(frozen=True)
class Parity:
    """The largest difference of one computation, beside one and the largest value."""

    name: str
    difference: float
    seconds: float
    """Of the computation on the device."""

    @property
    def ok(self) -> bool:
        """Whether rounding explains it."""
        return self.difference <= TOLERANCE


def parity(device: torch.device) -> Iterator[Parity]:
    """Compare every score, top-k and loss on a device with the CPU's compiled loops."""
    for name in scores.names():
        score = scores.create(name)
        yield _compared(f"score {name}", device, lambda there, score=score: _scored(score, there))  # type: ignore[misc]
        yield _compared(f"top-k {name}", device, lambda there, score=score: _ranked(score, there))  # type: ignore[misc]
    for name in methods.names():
        method = methods.create(name)
        yield _compared(f"loss {name}", device, lambda there, method=method: _trained(method, there))  # type: ignore[misc]


def _compared(name: str, device: torch.device, compute: Callable[[torch.device], Numbers]) -> Parity:
    cpu = torch.device("cpu")
    expected = compute(cpu)
    with torch_only() if device.type == "cpu" else nullcontext():
        start = time.perf_counter()
        numbers = [part.cpu() for part in compute(device)]
        seconds = time.perf_counter() - start
    differences = [_difference(*pair) for pair in zip(numbers, expected, strict=True)]
    return Parity(name, max(differences), seconds)


def _difference(number: Float[Tensor, "..."], expected: Float[Tensor, "..."]) -> float:
    """max |x − y| / (1 + max |y|), the measure of sums that are rounded; infinite where only one is finite."""
    finite = torch.isfinite(expected)
    if bool((torch.isfinite(number) != finite).any()):
        return float("inf")
    x, y = number[finite].double(), expected[finite].double()
    return float((x - y).abs().max() / (1 + y.abs().max())) if len(y) else 0.0


def _random(count: int, seed: int) -> Gaussian:
    generator = torch_stream(seed, "parity")
    mean = torch.nn.functional.normalize(torch.randn(count, DIM, generator=generator))
    return Gaussian(mean, -2.5 + 0.4 * torch.randn(count, DIM, generator=generator))


def _scored(score: Score, device: torch.device) -> Numbers:
    return [score(_random(16, 0).to(device), _random(ITEMS, 1).to(device))]


def _ranked(score: Score, device: torch.device) -> Numbers:
    """The best scores: items whose scores are equal but for rounding may change places."""
    found = score.topk(_random(16, 0).to(device), _random(ITEMS, 1).to(device), k=10)
    return [torch.as_tensor(found.scores)]


def _trained(method: Method, device: torch.device) -> Numbers:
    """The loss of a batch that real heads embed, and the gradients of all that learns."""
    objective = method.objective().to(device)
    images, captions = (_heads(method, side, device) for side in (0, 1))
    classes = torch.arange(BATCH) // 2
    matches = (classes[:, None] == classes).to(device)
    terms = objective(images(), captions(), matches, torch_stream(0, "parity noise"))
    learning = [p for part in (objective, images.heads, captions.heads) for p in part.parameters()]
    gradients = torch.autograd.grad(terms.total, learning, allow_unused=True)
    return [terms.total.detach(), *(gradient for gradient in gradients if gradient is not None)]


@dataclass(frozen=True)
class _Side:
    heads: Heads
    features: Features

    def __call__(self) -> Embedding:
        return self.heads(self.features)  # type: ignore[no-any-return]


def _heads(method: Method, side: int, device: torch.device) -> _Side:
    """One side's heads, and random features for them."""
    generator = torch_stream(side, "parity heads")
    heads = Heads(HeadSizes(DIM, DIM), method.heads(DIM), generator).to(device)
    sites = torch.randn(BATCH, 5, DIM, generator=generator).to(device)
    pooled = sites.mean(1)
    return _Side(heads, Features(sites, pooled, pooled))
