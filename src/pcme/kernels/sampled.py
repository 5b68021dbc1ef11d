"""Eq. (2) as printed: J samples on either side, the mean of J² sigmoids, without J²·D numbers.

All J² distances of all pairs come from one matrix product over the stacked samples. The mean of sigmoids is taken
relative to the largest one, so nothing over- or underflows at any logit.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.core.random import torch_stream
from pcme.embedding import Embedding, Gaussian, Points
from pcme.kernels.quadrature import SURE, Scalar
from pcme.kernels.threads import run_each

Queries = Float[Tensor, "q j d"]
Items = Float[Tensor, "g k d"]
Pairs = Float[Tensor, "q g"]

CHUNK = 16
"""Items that share one random stream; fixed, so that samples do not depend on the block size."""
SQRT_EPSILON = 1e-12
"""Least squared distance: the square root's slope at 0 is infinite. Paper's code adds 1e-6."""


def draw(items: Embedding, rows: slice, samples: int, *, seed: int, side: str) -> Float[Tensor, "n k d"]:
    """Samples of items[rows]; a function of (seed, side, position), never of how rows are cut.

    The two sides never share a stream: with one seed for both, row i of either side would carry the same noise, and
    embeddings that know nothing would find their partners. `Points` are returned as they are.
    """
    start, stop, _ = rows.indices(len(items))
    if isinstance(items, Points):
        return items.x[start:stop]
    chunks = range(start // CHUNK, -(-stop // CHUNK))
    parts = run_each(lambda chunk: _chunk(items, chunk, samples, seed=seed, side=side), chunks)
    skip = start - start // CHUNK * CHUNK
    return torch.cat(parts)[skip : skip + stop - start]


def mean_distance(x: Queries, y: Items) -> Pairs:
    """mean_jk ‖x_qj − y_gk‖. Paper: Table 1, "Average L2"."""
    return _distances(*_stacked(x, y)).view(_pairs_shape(x, y)).mean(0).mean(1)


def log_match(x: Queries, y: Items, scale: float, shift: float) -> Pairs:
    """log mean_jk sigmoid(shift − scale ‖x_qj − y_gk‖). Paper: Eq. (2)–(3)."""
    distance = _distances(*_stacked(x * scale, y * scale)).view(_pairs_shape(x, y))
    logits = torch.sub(shift, distance, out=distance).clamp_max_(SURE)
    top = logits.amax(0).amax(1)
    return top.clamp_max(0) + _scaled_sigmoid(logits, top).mean(0).mean(1).log()


def pair_nll(x: Queries, y: Items, sign: Pairs, scale: Scalar, shift: Scalar) -> Pairs:
    """−log mean_jk sigmoid(sign · (shift − scale ‖x_j − y_k‖)). Paper: Eq. (1)–(3)."""
    out: Pairs = _PairNll.apply(x, y, sign, scale, shift)  # type: ignore[no-untyped-call]
    return out


class _PairNll(torch.autograd.Function):
    """Forward: one matrix product. Backward: two, since ∂‖x − y‖/∂x = (x − y)/‖x − y‖ is linear."""

    @staticmethod
    def forward(ctx: Any, x: Queries, y: Items, sign: Pairs, scale: Scalar, shift: Scalar) -> Pairs:  # noqa: ANN401
        left, right = _stacked(x, y)
        distance = _distances(left, right)
        shape = _pairs_shape(x, y)
        logits = torch.addcmul((sign * shift)[:, None], (-sign * scale)[:, None], distance.view(shape)).clamp_max_(SURE)
        top = logits.amax(0).amax(1)
        part = _scaled_sigmoid(logits, top)
        total = part.sum(0).sum(1)
        nll = math.log(shape[0] * shape[2]) - top.clamp_max(0) - total.log()
        # ∂NLL/∂distance = scale · sign · w (1 − sigmoid), w = sigmoid / Σ sigmoid: Eq. (5), exact
        gain = sign / total
        peak = top.clamp_max(0).exp()
        slope = part.mul_(torch.addcmul(gain[:, None], (-gain * peak)[:, None], part))
        ctx.save_for_backward(left, right, distance, slope, scale)
        ctx.shapes = (x.shape, y.shape)
        return nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        left, right, distance, slope, scale = ctx.saved_tensors
        weighted = (slope * grads[0][:, None]).view(distance.shape)
        grad_scale = (weighted * distance).sum().reshape(scale.shape)
        grad_shift = -weighted.sum().reshape(scale.shape)
        pull = weighted.div_(distance).mul_(scale)
        grad_left = torch.addmm(pull.sum(1, keepdim=True) * left, pull, right, alpha=-1)
        grad_right = torch.addmm(pull.sum(0)[:, None] * right, pull.T, left, alpha=-1)
        (q, j, d), (g, k, _) = ctx.shapes
        samples = grad_left.view(j, q, d).transpose(0, 1), grad_right.view(k, g, d).transpose(0, 1)
        return *samples, None, grad_scale, grad_shift


def _chunk(items: Gaussian, chunk: int, samples: int, *, seed: int, side: str) -> Float[Tensor, "n k d"]:
    part = items[chunk * CHUNK : (chunk + 1) * CHUNK].detach()
    whole = (CHUNK, samples, items.dim)  # always drawn whole: the last chunk may be cut short
    noise = torch.randn(whole, generator=torch_stream(seed, side, chunk), dtype=part.mean.dtype)
    noise = noise[: len(part)].to(part.mean.device)
    return torch.addcmul(part.mean[:, None], noise, part.sigma[:, None])


def _stacked(x: Queries, y: Items) -> tuple[Float[Tensor, "jq d"], Float[Tensor, "kg d"]]:
    """[q, j, d] → [j q, d], centred: the order that keeps reductions over (j, k) contiguous."""
    centre = y.mean((0, 1))
    left = (x - centre).transpose(0, 1).reshape(-1, x.shape[2])
    return left, (y - centre).transpose(0, 1).reshape(-1, y.shape[2])


def _pairs_shape(x: Queries, y: Items) -> tuple[int, int, int, int]:
    return x.shape[1], x.shape[0], y.shape[1], y.shape[0]


def _distances(left: Float[Tensor, "jq d"], right: Float[Tensor, "kg d"]) -> Float[Tensor, "jq kg"]:
    """The norms ride along as two more columns of the product."""
    own1, own2 = (t.square().sum(1, keepdim=True) for t in (left, right))
    ones1, ones2 = torch.ones_like(own1), torch.ones_like(own2)
    squares = torch.cat((left * -2, own1, ones1), 1) @ torch.cat((right, ones2, own2), 1).T
    return squares.clamp_min_(SQRT_EPSILON).sqrt_()


def _scaled_sigmoid(logits: Float[Tensor, "j q k g"], top: Pairs) -> Float[Tensor, "j q k g"]:
    """sigmoid(l) e^(−min(r, 0)) in place, r = `top` the largest l of a pair.

    With v = e^(l−r) it is v / (α + β v), where (α, β) = (1, eʳ) for r < 0, (e⁻ʳ, 1) otherwise: all exponents are ≤ 0.
    """
    alpha = torch.exp(-top.clamp_min(0))[:, None]
    beta = torch.exp(top.clamp_max(0))[:, None]
    v = logits.sub_(top[:, None]).exp_()
    return v.div_(torch.addcmul(alpha, beta, v))
