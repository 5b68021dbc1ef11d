"""The two sums of the expected likelihood kernel, for tensors: any range, differentiable.

    M = Σ_d (μ₁ − μ₂)² / (σ₁² + σ₂²)        L = Σ_d log (σ₁² + σ₂²)

Paper: Eq. (B.4), (B.5). `compiled` does the work on the CPU; elsewhere torch does, a few dimensions at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pcme.embedding import Gaussian
from pcme.errors import DataError
from pcme.kernels import compiled
from pcme.kernels.devices import BLOCK_BYTES, uses_compiled, widest

Terms = tuple[Float[Tensor, "q g"], Float[Tensor, "q g"]]
Queries = Float[Tensor, "q #d"]
Items = Float[Tensor, "g #d"]


@dataclass(frozen=True)
class Scaling:
    """Per dimension, the typical log σ: divided by it, both sides have the same M, an L shifted by a constant, and
    such spreads that single precision is enough."""

    log_centre: Float[Tensor, " d"]
    dtype: torch.dtype

    @property
    def log_volume(self) -> Float[Tensor, ""]:
        """What the scaling takes away from L."""
        return 2 * self.log_centre.to(widest(self.log_centre.device)).sum()

    def apply(self, items: Gaussian) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n s"]]:
        """Scaled (means, variances), [N, D] each; differentiable."""
        centre = self.log_centre.to(self.dtype)
        variance = (2 * (items.log_sigma.to(self.dtype) - centre)).exp()
        return items.mean.to(self.dtype) * (-centre).exp(), variance


@dataclass(frozen=True)
class Extent:
    """Per dimension of a gallery: the mean of log σ, and how far log σ and μ reach from it."""

    log_centre: Float[Tensor, " d"]
    log_reach: Float[Tensor, " d"]
    largest: Float[Tensor, " d"]

    @staticmethod
    def of(gallery: Gaussian) -> "Extent":
        """Measure a gallery."""
        log_centre = _centre(gallery)
        return Extent(log_centre, *_reach(gallery, log_centre))

    def scaling(self, queries: Gaussian) -> Scaling:
        """By the gallery's mean log σ, in the precision that both sides' range asks for."""
        log_reach, largest = _reach(queries, self.log_centre)
        reach = 2 * float(torch.maximum(log_reach, self.log_reach).max())
        scaled = torch.maximum(largest, self.largest) * (-self.log_centre).exp()
        for dtype in (queries.dtype, torch.float64):
            if dtype in _NUMPY and _fits(reach, float(scaled.max()), _NUMPY[dtype]):
                return Scaling(self.log_centre, dtype)
        raise DataError(
            f"log_sigma lies up to {reach / 2:.0f} away from its average in the same dimension; "
            "density scores are computed up to 80. Bound log_sigma when training."
        )


def terms(queries: Gaussian, gallery: Gaussian, scaling: Scaling | None = None) -> Terms:
    """(M, L) for all pairs; gradients reach both sides' mean and log_sigma.

    >>> one = Gaussian(torch.zeros(1, 2), torch.zeros(1, 2))
    >>> m, l = terms(one, Gaussian(torch.ones(1, 2), torch.zeros(1, 2)))
    >>> round(m.item(), 6), round(l.item(), 6)  # 2 · 1/2 and 2 · log 2
    (1.0, 1.386294)
    """
    fused = uses_compiled(queries.device)
    if scaling is None:
        # Elsewhere the range is not looked at, which would wait for the device; the plain formulas allow any.
        scaling = Extent.of(gallery).scaling(queries) if fused else Scaling(_centre(gallery), queries.dtype)
    sides = (*scaling.apply(queries), *scaling.apply(gallery))
    m, log_sum = (_Fused if fused else _Blocked).apply(*sides)  # type: ignore[no-untyped-call]
    return m, log_sum + scaling.log_volume.to(log_sum.dtype)


class _Fused(torch.autograd.Function):
    """`compiled.kernel_sums` forward, `compiled.kernel_gradients` for either side backward."""

    @staticmethod
    def forward(ctx: Any, m1: Queries, v1: Queries, m2: Items, v2: Items) -> Terms:  # noqa: ANN401
        ctx.save_for_backward(m1, v1, m2, v2)
        queries = compiled.pad(m1.detach().numpy(), v1.detach().numpy())
        tiles = compiled.pack(*compiled.pad(m2.detach().numpy(), v2.detach().numpy()))
        m, log_sum = compiled.kernel_sums(queries, tiles, len(m2), torch.get_num_threads())
        return torch.from_numpy(m), torch.from_numpy(log_sum)

    @staticmethod
    def backward(ctx: Any, *grads: Float[Tensor, "q g"]) -> tuple[Float[Tensor, "_ d"], ...]:  # noqa: ANN401
        m1, v1, m2, v2 = (np.ascontiguousarray(t.detach().numpy()) for t in ctx.saved_tensors)
        w_m, w_l = (g.detach().numpy() for g in grads)
        there = compiled.kernel_gradients((m1, v1), (m2, v2), (w_m, w_l), torch.get_num_threads())
        back = compiled.kernel_gradients((m2, v2), (m1, v1), (w_m.T, w_l.T), torch.get_num_threads())
        return tuple(map(torch.from_numpy, (*there, *back)))


class _Blocked(torch.autograd.Function):
    """The same as torch operations on blocks of dimensions: nothing of size Q × G × D exists, in either direction."""

    @staticmethod
    def forward(ctx: Any, m1: Queries, v1: Queries, m2: Items, v2: Items) -> Terms:  # noqa: ANN401
        ctx.save_for_backward(m1, v1, m2, v2)
        m, log_sum = m1.new_zeros(len(m1), len(m2)), m1.new_zeros(len(m1), len(m2))
        for part in _dimensions(m1, m2):
            s = v1[:, None, part] + v2[:, part]
            m += ((m1[:, None, part] - m2[:, part]).square() / s).sum(-1)
            log_sum += s.log().sum(-1)
        return m, log_sum

    @staticmethod
    def backward(ctx: Any, *grads: Float[Tensor, "q g"]) -> tuple[Float[Tensor, "_ d"], ...]:  # noqa: ANN401
        m1, v1, m2, v2 = ctx.saved_tensors
        w_m, w_l = (weights[:, :, None] for weights in grads)
        out = [torch.empty_like(side) for side in (m1, v1, m2, v2)]
        for part in _dimensions(m1, m2):
            inverse = 1 / (v1[:, None, part] + v2[:, part])
            scaled = (m1[:, None, part] - m2[:, part]) * inverse
            pull = 2 * w_m * scaled
            slope = w_l * inverse - w_m * scaled.square()
            sums = pull.sum(1), slope.sum(1), -pull.sum(0), slope.sum(0)
            for gradient, total in zip(out, sums, strict=True):
                gradient[:, part] = total
        return tuple(out)


def _dimensions(queries: Queries, items: Items) -> Iterator[slice]:
    """Blocks of dimensions whose temporaries stay under `BLOCK_BYTES`, or single ones."""
    step = max(1, BLOCK_BYTES // (len(queries) * len(items) * queries.element_size()))
    return (slice(start, start + step) for start in range(0, queries.shape[1], step))


def _centre(items: Gaussian) -> Float[Tensor, " d"]:
    """The mean of log σ per dimension."""
    return items.log_sigma.detach().mean(0).expand(items.dim)


def _reach(items: Gaussian, log_centre: Float[Tensor, " d"]) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    """The largest |log σ − centre| and |μ| per dimension, chunk by chunk: torch would copy."""
    parts = [items[i : i + 4096].detach() for i in range(0, len(items), 4096)]
    low = torch.stack([part.log_sigma.amin(0) for part in parts]).amin(0)
    high = torch.stack([part.log_sigma.amax(0) for part in parts]).amax(0)
    least = torch.stack([part.mean.amin(0) for part in parts]).amin(0)
    most = torch.stack([part.mean.amax(0) for part in parts]).amax(0)
    return torch.maximum(high - log_centre, log_centre - low), torch.maximum(most, -least)


def _fits(reach: float, largest: float, kind: type[np.floating]) -> bool:
    """Whether products of four sums, and of a squared difference with three, stay in range."""
    room = 0.97 * np.log(np.finfo(kind).max) - 3 * (reach + np.log(2))
    safe = compiled.SAFE_LOG_VARIANCE[np.dtype(kind)]
    return bool(reach <= safe and 2 * np.log(2 * largest + 1) <= room)


_NUMPY: dict[torch.dtype, type[np.floating]] = {torch.float32: np.float32, torch.float64: np.float64}
