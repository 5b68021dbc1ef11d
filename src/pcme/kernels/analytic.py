"""The analytic match probability: Eq. (2) with J → ∞, without a single sample.

For two diagonal Gaussians the squared distance Q = ‖z₁ − z₂‖² is a generalised chi-square. With s_d = σ₁² + σ₂² and
Δ_d = μ₁ − μ₂ its cumulants are κ_n = 2ⁿ⁻¹ (n−1)! θ_n, where θ_n = Σ_d s_dⁿ + n Σ_d Δ_d² s_dⁿ⁻¹. They turn
E[sigmoid(b − a √Q)] into a short sum over nodes, by a rule that a pair's own numbers choose, whatever its block:

* *narrow* (Var Q ≤ 0.1 (E Q)²): √Q as a cubic in a standard normal (Cornish–Fisher), from θ₁, θ₂ and an estimate of θ₃,
  hence from six matrix products; Gauss–Hermite nodes, more of them where the sigmoid is steep against the spread.
* *wide* (the rest: very few dimensions, or one huge σ): the widest dimension is integrated by Gauss–Legendre, the
  others by three exact cumulants (Jensen & Solomon's power of Q, Wilson–Hilferty's cube root when Δ = 0), in O(D).

Measured errors and the range of trust: docs/science/analytic.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pcme.embedding import Gaussian
from pcme.kernels import compiled
from pcme.kernels.devices import BLOCK_BYTES, uses_compiled
from pcme.kernels.quadrature import SURE, Gather, Scalar, hermite, wide_rule

WIDE = 0.1
"""Var Q / (E Q)² above which a pair is *wide*."""

STEEP = ((0.6, 5), (1.0, 9), (2.5, 24), (math.inf, 96))
"""(largest a·sd(√Q), Gauss–Hermite nodes): the sigmoid's steepness in units of the spread."""

FEW_DIMENSIONS = 64
"""Up to so many, any pair may be wide."""
MOST_WIDE = 64
"""Of more dimensions, one pair in so many may be wide in a training step that does not wait for the device."""

WIDE_PAIRS = 1024
"""Pairs whose wide rule is computed, and computed again, together."""

TINY = torch.finfo(torch.float32).tiny
"""The least variance: 0 would leave no spread to divide by."""

Side = tuple[Float[Tensor, "... d"], Float[Tensor, "... d"]]
"""(means, variances) of one side; [N, D] each, or broadcastable [..., D] for pairs."""
Sign = Float[Tensor, "..."] | float


class Moments(NamedTuple):
    """Σ s, Σ s², Σ Δ², Σ Δ² s over the dimensions: all that the narrow rule needs of a pair."""

    spread: Float[Tensor, "*n"]
    spread2: Float[Tensor, "*n"]
    shift: Float[Tensor, "*n"]
    shift2: Float[Tensor, "*n"]

    @staticmethod
    def of_sides(queries: Side, gallery: Side) -> "Moments":
        """All pairs [q, g] by six products of means that are centred on the gallery's, where cancellation is least."""
        centre = gallery[0].mean(0)
        return Factors.of(queries, centre).moments(Factors.of(gallery, centre))

    @staticmethod
    def cat(parts: "list[Moments]") -> "Moments":
        """Blocks [q, g] side by side."""
        return Moments(*(torch.cat(sums, 1) for sums in zip(*parts, strict=True)))

    @property
    def mean(self) -> Float[Tensor, "*n"]:
        """E Q = θ₁: the closed-form sampled distance (csd)."""
        return (self.spread + self.shift).clamp_min(torch.finfo(self.shift.dtype).tiny)

    @property
    def variance(self) -> Float[Tensor, "*n"]:
        """Var Q = 2 θ₂."""
        return 2 * self.spread2 + 4 * self.shift2

    def columns(self, count: int) -> "Moments":
        """Those of the first items."""
        return Moments(*(sums[:, :count] for sums in self))

    def scaled_to_unit_mean(self) -> "Moments":
        """The moments of Q / E Q: numbers of order one, whose squares do not underflow."""
        mean = self.mean
        return Moments(self.spread / mean, self.spread2 / mean / mean, self.shift / mean, self.shift2 / mean / mean)

    def estimate_theta3(self) -> Float[Tensor, "*n"]:
        """(Σs²)²/Σs + 3 (ΣΔ²s)²/ΣΔ²: exact when all s_d are equal, else a lower bound (Cauchy)."""
        tiny = torch.finfo(self.spread.dtype).tiny  # σ so small that σ² is 0
        central = self.spread2 * (self.spread2 / self.spread.clamp_min(tiny))
        along = self.shift2 / (self.shift + 1e-6 * self.spread).clamp_min(tiny)  # where Δ = 0, ΣΔ² is rounding noise
        return central + 3 * self.shift2 * along


@dataclass(frozen=True)
class Factors:
    """What one side brings to the six products; `scaled` is μ σ², `sums` are Σ σ², Σ σ⁴, Σ μ² and Σ μ² σ²."""

    mean: Float[Tensor, "n d"]
    variance: Float[Tensor, "n d"]
    square: Float[Tensor, "n d"]
    scaled: Float[Tensor, "n d"]
    sums: Moments

    @staticmethod
    def of(side: Side, centre: Float[Tensor, " d"]) -> "Factors":
        """From means and variances [N, D]."""
        mean, variance = side[0] - centre, side[1]
        square, scaled = mean.square(), mean * variance
        sums = Moments(variance.sum(-1), variance.square().sum(-1), square.sum(-1), (mean * scaled).sum(-1))
        return Factors(mean, variance, square, scaled, sums)

    def moments(self, items: "Factors") -> Moments:
        """Σ Δ² s = Σ (μ₁² − 2 μ₁ μ₂ + μ₂²)(σ₁² + σ₂²), multiplied out."""
        spread, spread2, shift, shift2 = (a[:, None] + b for a, b in zip(self.sums, items.sums, strict=True))
        shift2 = torch.addmm(shift2, self.square, items.variance.T)
        shift2 = torch.addmm(shift2, self.variance, items.square.T)
        shift2 = torch.addmm(shift2, self.scaled, items.mean.T, alpha=-2)
        return Moments(
            spread,
            torch.addmm(spread2, self.variance, items.variance.T, alpha=2),
            torch.addmm(shift, self.mean, items.mean.T, alpha=-2).clamp_min(0),
            torch.addmm(shift2, self.mean, items.scaled.T, alpha=-2).clamp_min(0),
        )


def log_match(queries: Side, gallery: Side, scale: Scalar, shift: Scalar, sign: Sign = 1.0) -> Float[Tensor, "q g"]:
    """log E[sigmoid(sign · (b − a √Q))] of all pairs: log p for sign 1, log(1 − p) for −1. Paper: Eq. (2)–(3)."""
    columns = gallery[0].shape[0]

    def gather(flat: Int[Tensor, " n"]) -> Side:
        i, j = flat // columns, flat % columns
        return queries[0][i] - gallery[0][j], queries[1][i] + gallery[1][j]

    return log_expectation(Moments.of_sides(queries, gallery), gather, scale, shift, sign)


def log_match_pairs(
    queries: Side, gallery: Side, scale: Scalar, shift: Scalar, sign: Sign = 1.0
) -> Float[Tensor, "*n"]:
    """The same for broadcastable pairs [..., D]: the textbook form."""
    delta, spread = torch.broadcast_tensors(queries[0] - gallery[0], queries[1] + gallery[1])
    d2 = delta.square()
    moments = Moments(spread.sum(-1), spread.square().sum(-1), d2.sum(-1), (d2 * spread).sum(-1))

    def gather(flat: Int[Tensor, " n"]) -> Side:
        return delta.flatten(0, -2)[flat], spread.flatten(0, -2)[flat]

    return log_expectation(moments, gather, scale, shift, sign)


def log_expectation(
    moments: Moments, gather: Gather, scale: Scalar, shift: Scalar, sign: Sign = 1.0
) -> Float[Tensor, "*n"]:
    """The same from moments of any shape; `gather` gives Δ and s of the pairs that are wide."""
    ratio = moments.variance / moments.mean.square()
    steep = scale * (moments.variance / (4 * moments.mean)).sqrt()
    if torch.is_grad_enabled() and not uses_compiled(ratio.device):
        return _without_waiting(moments, ratio, steep.detach(), gather, scale, shift, sign)
    wide = ratio > WIDE
    flat_sign = torch.as_tensor(sign, dtype=ratio.dtype, device=ratio.device).expand(ratio.shape).reshape(-1)
    out = _narrow(moments, scale, shift, sign, nodes=STEEP[0][1])
    for (low, _), (high, nodes) in pairwise(STEEP):
        chosen = (steep.detach() > low) & (steep.detach() <= high) & ~wide
        if chosen.any():
            sub = Moments(*(sums[chosen] for sums in moments))
            part = _narrow(sub, scale, shift, flat_sign[chosen.reshape(-1)], nodes=nodes)
            out = out.masked_scatter(chosen, part)
    if wide.any():
        flat = wide.reshape(-1).nonzero()[:, 0]
        out = out.masked_scatter(wide, wide_rule(flat, gather, scale, shift, flat_sign))
    return out


def _without_waiting(
    moments: Moments,
    ratio: Float[Tensor, "*n"],
    steep: Float[Tensor, "*n"],
    gather: Gather,
    scale: Scalar,
    shift: Scalar,
    sign: Sign,
) -> Float[Tensor, "*n"]:
    """`log_expectation` by the same operations whatever the numbers are, so that nobody waits for the device.

    Every rule is applied to all pairs, and computed again in the backward pass instead of being stored. The wide rule
    costs too much for that: it takes the pairs with the largest Var Q / (E Q)², which are all that are wide unless more
    than one in `MOST_WIDE` is; those beyond have the narrow rule's value.
    """

    def narrow(nodes: int) -> Float[Tensor, "*n"]:
        return _recomputed(lambda: _narrow(moments, scale, shift, sign, nodes=nodes))

    out = narrow(STEEP[0][1])
    for (low, _), (_, nodes) in pairwise(STEEP):
        out = torch.where(steep > low, narrow(nodes), out)
    flat_ratio = ratio.detach().reshape(-1)
    dim = gather(torch.zeros(1, dtype=torch.int64, device=ratio.device))[0].shape[-1]
    count = len(flat_ratio) if dim <= FEW_DIMENSIONS else -(-len(flat_ratio) // MOST_WIDE)
    widest, flat = flat_ratio.topk(count)
    signs = torch.as_tensor(sign, dtype=ratio.dtype, device=ratio.device).expand(ratio.shape).reshape(-1)
    parts = [_recomputed(partial(wide_rule, some, gather, scale, shift, signs)) for some in flat.split(WIDE_PAIRS)]
    exact = torch.where(widest > WIDE, torch.cat(parts), out.reshape(-1)[flat])
    return out.reshape(-1).index_copy(0, flat, exact).reshape(out.shape)


def _recomputed(compute: Callable[[], Float[Tensor, "*n"]]) -> Float[Tensor, "*n"]:
    """What `compute` gives, of which the backward pass computes the parts again."""
    out: Tensor = checkpoint(compute, use_reentrant=False, preserve_rng_state=False)
    return out


def variances(items: Gaussian) -> Float[Tensor, "n d"]:
    """σ², at least `TINY`."""
    return items.variance.clamp_min(TINY)


def score_pairs(moments: Moments, gather: Gather, scale: Scalar, shift: Scalar) -> Float[Tensor, "*n"]:
    """`log_expectation` without gradients, in float64: on the CPU one compiled pass, elsewhere in parts."""
    if not uses_compiled(moments.spread.device):
        return _in_parts(moments, gather, scale, shift)
    sums, parameters = [part.numpy() for part in moments], (float(scale), float(shift))
    out = torch.from_numpy(compiled.narrow_log_match(sums, parameters, _classes(), WIDE, torch.get_num_threads()))
    wide = torch.isnan(out)
    if wide.any():
        flat = wide.reshape(-1).nonzero()[:, 0]
        out[wide] = wide_rule(flat, gather, scale, shift, torch.ones(out.numel(), dtype=out.dtype))
    return out


def _in_parts(moments: Moments, gather: Gather, scale: Scalar, shift: Scalar) -> Float[Tensor, "*n"]:
    """Few enough pairs at a time for the steepest rule to stay under the cap."""
    flat = Moments(*(sums.reshape(-1) for sums in moments))
    step = BLOCK_BYTES // (STEEP[-1][1] * flat.spread.element_size())
    parts = []
    for start in range(0, len(flat.spread), step):
        part = Moments(*(sums[start : start + step] for sums in flat))
        parts.append(log_expectation(part, lambda some, start=start: gather(some + start), scale, shift))  # type: ignore[misc]
    return torch.cat(parts).reshape(moments.spread.shape)


@cache
def _classes() -> tuple[tuple[float, np.ndarray, np.ndarray], ...]:
    rules = [(most, np.array(hermite(nodes))) for most, nodes in STEEP]
    return tuple((most, rule[:, 0].copy(), np.exp(rule[:, 1])) for most, rule in rules)


def _narrow(moments: Moments, scale: Scalar, shift: Scalar, sign: Sign, *, nodes: int) -> Float[Tensor, "*n"]:
    """Gauss–Hermite over √Q ≈ √θ₁ (A + B z + C z² + E z³)."""
    mean, unit = moments.mean, moments.scaled_to_unit_mean()
    variance = unit.variance.clamp_min(torch.finfo(mean.dtype).tiny)  # σ → 0 underflows
    cv = variance.sqrt()  # coefficient of variation of Q
    skew = 8 * (unit.estimate_theta3() / variance) / cv
    both, skew2, slope = cv * skew, skew.square(), scale * mean.sqrt()
    a0 = slope * (1 - both / 12)
    a1 = slope * cv * (0.5 + both / 24 + skew2 * (5 / 72 - 1.45 / 16))
    a2 = slope * (both / 12 - cv.square() / 8)
    a3 = slope * cv * (cv.square() / 16 - both / 24 + skew2 * (1.45 / 48 - 1 / 36))
    logits = []
    for z, _ in hermite(nodes):
        distance = torch.add(a0, torch.add(a1, torch.add(a2, a3, alpha=z), alpha=z), alpha=z)
        logits.append(((shift - distance.clamp_min(0)) * sign).clamp_max(SURE))
    return _log_mean_sigmoid(logits, [weight for _, weight in hermite(nodes)])


def _log_mean_sigmoid(logits: list[Float[Tensor, "*n"]], log_weights: list[float]) -> Float[Tensor, "*n"]:
    """log Σ_k w_k sigmoid(l_k), one exponential per node and none of a positive number (`sampled._scaled_sigmoid`)."""
    top = logits[0].detach()
    for logit in logits[1:]:
        top = torch.maximum(top, logit.detach())
    alpha, beta = torch.exp(-top.clamp_min(0)), torch.exp(top.clamp_max(0))
    total = torch.zeros_like(top)
    for logit, weight in zip(logits, log_weights, strict=True):
        v = torch.exp(logit - top)
        total = torch.add(total, v / torch.addcmul(alpha, beta, v), alpha=math.exp(weight))
    return (top.clamp_max(0) + total.log()).clamp_max(0)  # weights sum to 1 + rounding
