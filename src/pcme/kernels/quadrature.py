"""Quadrature rules of the analytic match probability: Gauss–Hermite nodes, and the *wide* rule."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

SURE = 40.0
"""Logits are cut here: 1 − sigmoid is then below the last digit, and no ratio becomes 0/0."""
OUTER_NODES, INNER_NODES = 64, 16
PAIR_MEMORY = 1 << 26
"""Bytes of temporaries for one chunk of wide pairs."""

Scalar = Float[Tensor, ""]
Column = Float[Tensor, "n 1"]
Outer = Float[Tensor, "n outer"]
Inner = Float[Tensor, "n inner"]
Gather = Callable[[Int[Tensor, " n"]], tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]]
"""Flat pair indices → (Δ, s)."""


@cache
def hermite(nodes: int) -> list[tuple[float, float]]:
    """(z, log weight) of E over a standard normal."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    return [(float(a), float(math.log(b))) for a, b in zip(z, w / w.sum(), strict=True)]


def wide_rule(
    flat: Int[Tensor, " n"], gather: Gather, scale: Scalar, shift: Scalar, sign: Float[Tensor, " all"]
) -> Float[Tensor, " n"]:
    """log E[sigmoid(± (b − a √Q))] of these pairs, chunk by chunk."""
    dim = gather(flat[:1])[0].shape[-1]
    rows = max(1, PAIR_MEMORY // (8 * (6 * dim + 6 * OUTER_NODES * INNER_NODES)))
    parts = [_wide_chunk(*gather(c), scale, shift, sign[c]) for c in flat.split(rows)]
    return torch.cat(parts)


def _wide_chunk(
    delta: Float[Tensor, "n d"], spread: Float[Tensor, "n d"], scale: Scalar, shift: Scalar, sign: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """∫ N(u; |Δ_j|, s_j) E[sigmoid(± (b − a √(u² + R)))] du, R = the squared distance without j."""
    size = (spread + delta.square()).sum(-1, keepdim=True).detach()  # in units of E Q: no underflow
    delta, spread, scale = delta / size.sqrt(), spread / size, scale * size.sqrt()
    widest = (2 * spread.square() + 4 * delta.square() * spread).argmax(-1, keepdim=True)
    centre, variance = delta.gather(-1, widest).abs(), spread.gather(-1, widest)
    others = torch.ones_like(spread).scatter(-1, widest, 0.0)
    rest = _power_nodes(delta * others, spread * others)  # [n, inner]
    u, log_weight, log_outside = _legendre_nodes(centre, variance.sqrt(), rest, scale, shift)
    distance = (u.square()[:, :, None] + rest[:, None, :]).sqrt()
    inner = torch.as_tensor([w for _, w in hermite(INNER_NODES)], dtype=u.dtype, device=u.device)
    weight = (log_weight[:, :, None] + inner).exp()
    logits = (sign[:, None, None] * (shift - scale[:, :, None] * distance)).clamp_max(SURE)
    top = logits.detach().amax((1, 2), keepdim=True)
    alpha, beta = torch.exp(-top.clamp_min(0)), torch.exp(top.clamp_max(0))
    v = torch.exp(logits - top)
    total = (weight * v / torch.addcmul(alpha, beta, v)).sum((1, 2))
    inside = top[:, 0, 0].clamp_max(0) + total.clamp_min(torch.finfo(u.dtype).tiny).log()
    # Beyond the nodes the sigmoid is nil: nothing for p, the whole Gaussian mass for 1 − p.
    both = torch.where(sign < 0, torch.logaddexp(inside, log_outside), inside)
    return both.clamp_max(0)


def _power_nodes(delta: Float[Tensor, "n d"], spread: Float[Tensor, "n d"]) -> Inner:
    """Nodes of R: (R/θ₁)^h is close to normal, h = 1 − 2 θ₁ θ₃ / (3 θ₂²) (Jensen & Solomon)."""
    tiny = 1e-30
    d2 = delta.square()
    theta1 = (spread + d2).sum(-1, keepdim=True).clamp_min(tiny)
    theta2 = (spread.square() + 2 * d2 * spread).sum(-1, keepdim=True).clamp_min(tiny * tiny)
    theta3 = (spread.pow(3) + 3 * d2 * spread.square()).sum(-1, keepdim=True)
    power = (1 - 2 * theta1 * theta3 / (3 * theta2.square())).clamp(0.2, 1.0)
    r = theta2 / theta1.square()
    middle = 1 + power * (power - 1) * r * (1 - (2 - power) * (1 - 3 * power) * r / 2)
    width = (2 * r * (1 - (1 - power) * (1 - 3 * power) * r)).clamp_min(0).sqrt() * power
    z = torch.as_tensor([z for z, _ in hermite(INNER_NODES)], dtype=delta.dtype, device=delta.device)
    return theta1 * (middle + width * z).clamp_min(1e-6).pow(1 / power)


def _legendre_nodes(
    centre: Column, sigma: Column, rest: Inner, scale: Column, shift: Scalar
) -> tuple[Outer, Outer, Float[Tensor, " n"]]:
    """Nodes u, log (weight · density) where Gaussian and sigmoid have mass; log of the rest."""
    inside = rest.mean(-1, keepdim=True).sqrt()
    drop = (30 + torch.nn.functional.softplus(shift - scale * inside)) / scale
    reach = ((inside + drop).square() - rest.amin(-1, keepdim=True)).sqrt()
    low, high = centre - 8.5 * sigma, centre + 8.5 * sigma
    overlap = reach > low
    high = torch.where(overlap, torch.minimum(high, reach), high).detach()
    low = torch.where(overlap, torch.maximum(low, -reach), low).detach()
    x, w = np.polynomial.legendre.leggauss(OUTER_NODES)
    half = (high - low) / 2
    u = (high + low) / 2 + half * torch.as_tensor(x, dtype=centre.dtype, device=centre.device)
    z = (u - centre) / sigma
    log_weight = torch.as_tensor(np.log(w), dtype=centre.dtype, device=centre.device) + (half / sigma).log()
    tails = torch.erfc((high - centre) / sigma / math.sqrt(2)) / 2
    tails = tails + torch.erfc((centre - low) / sigma / math.sqrt(2)) / 2
    log_outside = tails[:, 0].clamp_min(torch.finfo(u.dtype).tiny).log()
    return u, log_weight - z.square() / 2 - 0.5 * math.log(2 * math.pi), log_outside
