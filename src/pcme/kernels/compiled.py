"""Compiled loops for what no matrix product can do: numpy in, numpy out, one thread per slice.

numba rather than torch.compile: no C++ compiler is needed at run time, and the machine code is cached on disk. Kernels
release the GIL and are driven by the pool of `threads`, so that any thread of a server may call them.

The sums M = Σ (μ₁ − μ₂)² / (σ₁² + σ₂²) and L = Σ log (σ₁² + σ₂²) over the dimensions of a pair are not finitely
bilinear. Here nothing of size Q × G × D exists: the gallery lies in tiles of `TILE` items, and four dimensions share
one division (over their common denominator) and one product of variances, whose exponent is split off as an integer,
so that one logarithm serves all of D.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from pcme.kernels.quadrature import SURE
from pcme.kernels.threads import Array, run_slices

Arrays = tuple[Array, Array]
"""Of means and of variances, [N, D] each, or of M and L, [Q, G] each."""
TILE = 128
"""Items in a tile; a compile-time constant, so that every item takes the same vector path and its result does not
depend on its neighbours."""
Classes = tuple[tuple[float, Array, Array], ...]
"""For each steepness up to which it serves, the nodes z and weights of a rule."""
GROUP = 4
"""Dimensions that share one division."""
SAFE_LOG_VARIANCE = {np.dtype(np.float32): 18.0, np.dtype(np.float64): 160.0}
"""|log σ²| after centring up to which a product of `GROUP` sums neither over- nor underflows."""

_FAST: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}


def kernel_sums(queries: Arrays, tiles: Array, items: int, threads: int) -> Arrays:
    """(M, L) for all pairs [Q, items]; `queries` and `tiles` come from `pad` and `pack`."""
    mean, variance = queries
    m_out = np.empty((len(mean), items), mean.dtype)
    l_out = np.empty_like(m_out)
    kernel = _SUMS[mean.dtype]
    run_slices(lambda a, b: kernel(mean, variance, tiles, m_out, l_out, a, b), len(tiles), threads)
    return m_out, l_out


def kernel_gradients(queries: Arrays, items: Arrays, weights: Arrays, threads: int) -> Arrays:
    """(∂/∂μ, ∂/∂σ²) of Σ_ij (wM_ij M_ij + wL_ij L_ij) for the queries, [Q, D] each."""
    grads = np.empty_like(queries[0]), np.empty_like(queries[1])
    run_slices(lambda a, b: _gradients(queries, items, weights, grads, a, b), len(queries[0]), threads)
    return grads


def pair_moments(queries: Arrays, items: Arrays, ids: Array, threads: int) -> Array:
    """Σ s, Σ s², Σ Δ², Σ Δ² s in float64 for the listed pairs: ids [Q, m] → [4, Q, m]."""
    out = np.empty((4, ids.size))
    order = np.argsort(ids, axis=None)  # in the order of the items: each item's row is then read from memory once
    run_slices(lambda a, b: _pair_moments(queries, items, ids, order, out, a, b), ids.size, threads)
    return out.reshape(4, *ids.shape)


def narrow_log_match(
    moments: Sequence[Array], parameters: tuple[float, float], classes: Classes, wide: float, threads: int
) -> Array:
    """The narrow rule of `analytic` without temporaries; NaN for pairs that are wide."""
    sums, out = tuple(np.ascontiguousarray(m).reshape(-1) for m in moments), np.empty(moments[0].shape)
    run_slices(lambda a, b: _narrow(sums, parameters, classes, wide, out.reshape(-1), a, b), out.size, threads)
    return out


def pad(mean: Array, variance: Array) -> Arrays:
    """Dimensions filled up to a multiple of `GROUP` with μ = 0, σ² = ½: nothing for M and L."""
    extra = -mean.shape[1] % GROUP
    fill = np.full((len(mean), extra), 0.5, mean.dtype)
    return (
        np.ascontiguousarray(np.concatenate((mean, np.zeros_like(fill)), 1)),
        np.ascontiguousarray(np.concatenate((variance, fill), 1)),
    )


def pack(mean: Array, variance: Array) -> Array:
    """Padded items as tiles [tiles, D, 2, TILE]; the last tile is filled with harmless items."""
    items, dim = mean.shape
    tiles = np.ones((-(-items // TILE), dim, 2, TILE), mean.dtype)
    for t in range(len(tiles)):
        rows = slice(t * TILE, min(items, (t + 1) * TILE))
        tiles[t, :, 0, : rows.stop - rows.start] = mean[rows].T
        tiles[t, :, 1, : rows.stop - rows.start] = variance[rows].T
    return tiles


def _make_sums(real: Any, integer: Any, bits: int, bias: int) -> Callable[..., None]:  # noqa: ANN401
    mantissa, one, log2 = (1 << bits) - 1, bias << bits, real(np.log(2.0))
    unit = real(1.0)

    def sums(mean: Array, variance: Array, tiles: Array, m_out: Array, l_out: Array, first: int, last: int) -> None:
        dim, items = mean.shape[1], m_out.shape[1]
        total, product = np.empty(TILE, real), np.empty(TILE, real)
        exponent, pattern = np.empty(TILE, integer), product.view(integer)
        for t in range(first, last):
            used = min(TILE, items - t * TILE)
            for q in range(mean.shape[0]):
                total[:] = 0
                exponent[:] = 0
                product[:] = unit
                for d in range(0, dim, GROUP):
                    a0, a1, a2, a3 = mean[q, d], mean[q, d + 1], mean[q, d + 2], mean[q, d + 3]
                    b0, b1 = variance[q, d], variance[q, d + 1]
                    b2, b3 = variance[q, d + 2], variance[q, d + 3]
                    t0, t1, t2, t3 = tiles[t, d], tiles[t, d + 1], tiles[t, d + 2], tiles[t, d + 3]
                    for g in range(TILE):
                        s0, s1, s2, s3 = b0 + t0[1, g], b1 + t1[1, g], b2 + t2[1, g], b3 + t3[1, g]
                        e0, e1, e2, e3 = a0 - t0[0, g], a1 - t1[0, g], a2 - t2[0, g], a3 - t3[0, g]
                        p01, p23 = s0 * s1, s2 * s3
                        n01, n23 = e0 * e0 * s1 + e1 * e1 * s0, e2 * e2 * s3 + e3 * e3 * s2
                        p = p01 * p23
                        total[g] += (n01 * p23 + n23 * p01) / p
                        product[g] *= p
                    for g in range(TILE):  # product → mantissa in [1, 2), exponent added up
                        word = pattern[g]
                        exponent[g] += (word >> bits) - bias
                        pattern[g] = (word & mantissa) | one
                for g in range(used):
                    m_out[q, t * TILE + g] = total[g]
                    l_out[q, t * TILE + g] = np.log(product[g]) + log2 * exponent[g]

    compiled: Callable[..., None] = numba.njit(**_FAST)(sums)
    return compiled


_SUMS = {
    np.dtype(np.float32): _make_sums(np.float32, np.int32, 23, 127),
    np.dtype(np.float64): _make_sums(np.float64, np.int64, 52, 1023),
}


@numba.njit(**_FAST)
def _gradients(queries: Arrays, items: Arrays, weights: Arrays, grads: Arrays, first: int, last: int) -> None:
    (m1, v1), (m2, v2), (w_m, w_l), (grad_mean, grad_variance) = queries, items, weights, grads
    dim = m1.shape[1]
    for i in range(first, last):
        grad_mean[i, :] = 0
        grad_variance[i, :] = 0
        for j in range(m2.shape[0]):
            a, b = w_m[i, j], w_l[i, j]
            for d in range(dim):
                inverse = 1 / (v1[i, d] + v2[j, d])
                scaled = (m1[i, d] - m2[j, d]) * inverse
                grad_mean[i, d] += 2 * a * scaled
                grad_variance[i, d] += b * inverse - a * scaled * scaled


@numba.njit(**_FAST)
def _pair_moments(queries: Arrays, items: Arrays, ids: Array, order: Array, out: Array, first: int, last: int) -> None:
    (m1, v1), (m2, v2) = queries, items
    dim, width = m1.shape[1], ids.shape[1]
    for n in range(first, last):
        pair = order[n]
        q, k = pair // width, pair % width
        g = ids[q, k]
        spread = spread2 = shift = shift2 = 0.0
        for d in range(dim):
            s = np.float64(v1[q, d]) + np.float64(v2[g, d])
            e = np.float64(m1[q, d]) - np.float64(m2[g, d])
            spread += s
            spread2 += s * s
            shift += e * e
            shift2 += e * e * s
        out[0, pair], out[1, pair], out[2, pair], out[3, pair] = spread, spread2, shift, shift2


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _narrow(
    sums: tuple[Array, ...],
    parameters: tuple[float, float],
    classes: Classes,
    wide: float,
    out: Array,
    first: int,
    last: int,
) -> None:
    (spread, spread2, shift1, shift2), (scale, shift) = sums, parameters
    for n in range(first, last):
        mean = spread[n] + shift1[n]
        variance = max(2 * spread2[n] + 4 * shift2[n], 2.3e-308)
        deviation = np.sqrt(variance)
        cv = deviation / mean
        if not cv * cv <= wide:
            out[n] = np.nan
            continue
        theta3 = spread2[n] * (spread2[n] / spread[n])
        theta3 += 3 * shift2[n] * (shift2[n] / (shift1[n] + 1e-6 * spread[n]))
        skew = 8 * (theta3 / variance) / deviation
        slope = scale * np.sqrt(mean)
        a0 = slope * (1 - cv * skew / 12)
        a1 = slope * cv * (0.5 + cv * skew / 24 + skew * skew * (5 / 72 - 1.45 / 16))
        a2 = slope * (cv * skew / 12 - cv * cv / 8)
        a3 = slope * cv * (cv * cv / 16 - cv * skew / 24 + skew * skew * (1.45 / 48 - 1 / 36))
        steep = scale * deviation / (2 * np.sqrt(mean))
        if steep <= classes[0][0]:
            nodes, weights = classes[0][1], classes[0][2]
        elif steep <= classes[1][0]:
            nodes, weights = classes[1][1], classes[1][2]
        elif steep <= classes[2][0]:
            nodes, weights = classes[2][1], classes[2][2]
        else:
            nodes, weights = classes[3][1], classes[3][2]
        top = -np.inf
        for z in nodes:
            top = max(top, min(shift - max(a0 + z * (a1 + z * (a2 + z * a3)), 0.0), SURE))
        alpha, beta = np.exp(-max(top, 0.0)), np.exp(min(top, 0.0))
        total = 0.0
        for k in range(len(nodes)):
            z = nodes[k]
            v = np.exp(min(shift - max(a0 + z * (a1 + z * (a2 + z * a3)), 0.0), SURE) - top)
            total += weights[k] * v / (alpha + beta * v)
        out[n] = min(min(top, 0.0) + np.log(total), 0.0)
