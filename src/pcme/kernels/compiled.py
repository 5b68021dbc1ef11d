"""Compiled loops for what no matrix product can do: numpy in, numpy out, one thread a slice.

numba rather than torch.compile: no C++ compiler is needed at run time, and the first call costs
seconds once (the machine code is cached on disk). Kernels release the GIL and are driven by our own
thread pool, so that they obey `threads` and may be called from any thread of a server.

The sums of the expected likelihood kernel, over the dimensions d of a pair,

    M = Σ (μ₁ − μ₂)² / (σ₁² + σ₂²)        L = Σ log (σ₁² + σ₂²),

are not finitely bilinear. Here nothing of size Q × G × D exists: the gallery lies in tiles of
`TILE` items, and four dimensions share one division (over their common denominator) and one product
of variances, whose exponent is split off as an integer, so that one logarithm serves all of D.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TILE = 128
"""Items in a tile; a compile-time constant, so that every item takes the same vector path and its
result does not depend on its neighbours."""
SURE = 40.0
"""As in `quadrature`: a logit beyond which the sigmoid is 1 to the last digit."""
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


def kernel_sums(
    queries: tuple[Array, Array], tiles: Array, items: int, threads: int
) -> tuple[Array, Array]:
    """(M, L) for all pairs [Q, items]; `queries` and `tiles` come from `pad` and `pack`."""
    mean, variance = queries
    m_out = np.empty((len(mean), items), mean.dtype)
    l_out = np.empty_like(m_out)
    kernel = _sums_kernel(mean.dtype)
    _run(lambda a, b: kernel(mean, variance, tiles, m_out, l_out, a, b), len(tiles), threads)
    return m_out, l_out


def kernel_gradients(
    queries: tuple[Array, Array],
    items: tuple[Array, Array],
    weights: tuple[Array, Array],
    threads: int,
) -> tuple[Array, Array]:
    """(∂/∂μ, ∂/∂σ²) of Σ_ij (wM_ij M_ij + wL_ij L_ij) for the queries, [Q, D] each."""
    grad_mean, grad_variance = np.empty_like(queries[0]), np.empty_like(queries[1])
    _run(
        lambda a, b: _gradients(*queries, *items, *weights, grad_mean, grad_variance, a, b),
        len(queries[0]),
        threads,
    )
    return grad_mean, grad_variance


def pair_moments(
    queries: tuple[Array, Array], items: tuple[Array, Array], ids: Array, threads: int
) -> Array:
    """Σ s, Σ s², Σ Δ², Σ Δ² s in float64 for the listed pairs: ids [Q, m] → [4, Q, m].

    In the order of the items, not of the queries: each item's row is then read from memory once.
    """
    out = np.empty((4, ids.size))
    order = np.argsort(ids, axis=None)
    _run(lambda a, b: _pair_moments(*queries, *items, ids, order, out, a, b), ids.size, threads)
    return out.reshape(4, *ids.shape)


def narrow_log_match(
    moments: tuple[Array, Array, Array, Array],
    parameters: tuple[float, float],
    classes: tuple[tuple[float, Array, Array], ...],
    wide: float,
    threads: int,
) -> Array:
    """The narrow rule of `quadrature` without temporaries; NaN for pairs that are wide.

    `classes`: for each steepness up to which it serves, the nodes z and weights of a rule.
    """
    a, b, c, d = (np.ascontiguousarray(m).reshape(-1) for m in moments)
    out = np.empty(moments[0].shape)
    _run(
        lambda i, j: _narrow(a, b, c, d, *parameters, classes, wide, out.reshape(-1), i, j),
        out.size,
        threads,
    )
    return out


class BestKeys:
    """The `width` largest of a stream of float32 keys for each query; ties keep the lower id.

    A key and its id become one integer that sorts by key, then by id; a buffer of twice the width
    is cut back by quickselect whenever it is full, so an entry costs O(1) whatever the width.
    """

    def __init__(self, queries: int, width: int, threads: int) -> None:
        self.width, self.threads = width, threads
        self._words = np.empty((queries, 2 * width), np.int64)
        self._count = np.zeros(queries, np.int64)
        self._threshold = np.full(queries, -np.inf, np.float32)

    def add(self, keys: Array, first_id: int) -> None:
        """A block of keys [queries, g] for the items from `first_id` on."""
        state = (self._words, self._count, self._threshold, self.width)
        bits = keys.view(np.int32)
        _run(lambda a, b: _add_keys(keys, bits, first_id, *state, a, b), len(keys), self.threads)

    def result(self) -> tuple[Array, Array]:
        """(keys, ids), [queries, width] each, the best first; needs as many items as `width`."""
        state = (self._words, self._count, self.width)
        _run(lambda a, b: _cut_all(*state, a, b), len(self._count), self.threads)
        words = -np.sort(-self._words[:, : self.width], axis=1)
        high = (words >> 32).astype(np.int32)
        keys = np.where(high < 0, high ^ 0x7FFFFFFF, high).astype(np.int32).view(np.float32)
        return keys, 0xFFFFFFFF - (words & 0xFFFFFFFF)


def merge_topk(scores: Array, first_id: int, best: Array, ids: Array, threads: int) -> None:
    """Fold a block of scores [q, g] into the best so far, in place; ties keep the lower id."""
    _run(lambda a, b: _merge(scores, first_id, best, ids, a, b), len(scores), threads)


def pad(mean: Array, variance: Array) -> tuple[Array, Array]:
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


def _run(kernel: Callable[[int, int], object], rows: int, threads: int) -> None:
    """`kernel(start, stop)` over [0, rows) in as many slices as threads."""
    workers = max(1, min(threads, rows))
    edges = [rows * i // workers for i in range(workers + 1)]
    if workers == 1:
        kernel(0, rows)
        return
    futures = [_pool().submit(kernel, a, b) for a, b in pairwise(edges[1:])]
    kernel(0, edges[1])
    for future in futures:
        future.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="pcme-fused")


def _sums_kernel(dtype: np.dtype[Any]) -> Callable[..., None]:
    return _sums32 if dtype == np.float32 else _sums64


def _make_sums(real: Any, integer: Any, bits: int, bias: int) -> Callable[..., None]:  # noqa: ANN401
    mantissa, one, log2 = (1 << bits) - 1, bias << bits, real(np.log(2.0))
    unit = real(1.0)

    def sums(
        mean: Array,
        variance: Array,
        tiles: Array,
        m_out: Array,
        l_out: Array,
        first: int,
        last: int,
    ) -> None:
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


_sums32 = _make_sums(np.float32, np.int32, 23, 127)
_sums64 = _make_sums(np.float64, np.int64, 52, 1023)


@numba.njit(**_FAST)
def _gradients(
    m1: Array,
    v1: Array,
    m2: Array,
    v2: Array,
    w_m: Array,
    w_l: Array,
    grad_mean: Array,
    grad_variance: Array,
    first: int,
    last: int,
) -> None:
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
def _pair_moments(
    m1: Array,
    v1: Array,
    m2: Array,
    v2: Array,
    ids: Array,
    order: Array,
    out: Array,
    first: int,
    last: int,
) -> None:
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
    spread: Array,
    spread2: Array,
    shift1: Array,
    shift2: Array,
    scale: float,
    shift: float,
    classes: tuple[tuple[float, Array, Array], ...],
    wide: float,
    out: Array,
    first: int,
    last: int,
) -> None:
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


@numba.njit(nogil=True, cache=True)
def _add_keys(
    keys: Array,
    bits: Array,
    first_id: int,
    words: Array,
    count: Array,
    threshold: Array,
    width: int,
    first: int,
    last: int,
) -> None:
    for q in range(first, last):
        least, used = threshold[q], count[q]
        for g in range(keys.shape[1]):
            if keys[q, g] > least or used < width:
                word = np.int64(bits[q, g])
                if word < 0:
                    word ^= np.int64(0x7FFFFFFF)
                words[q, used] = (word << 32) | (np.int64(0xFFFFFFFF) - (first_id + g))
                used += 1
                if used == 2 * width:
                    _cut(words[q], width)
                    used = width
                    high = words[q, :width].min() >> 32
                    least = _key_of(high)
        threshold[q], count[q] = least, used


@numba.njit(nogil=True, cache=True)
def _cut_all(words: Array, count: Array, width: int, first: int, last: int) -> None:
    for q in range(first, last):
        _cut(words[q, : count[q]], width)
        count[q] = min(count[q], width)


@numba.njit(nogil=True, cache=True)
def _cut(words: Array, width: int) -> None:
    """Quickselect: the `width` largest words come first, in any order."""
    low, high = 0, len(words) - 1
    while low < high:
        a, b, c = words[low], words[(low + high) // 2], words[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while words[i] > pivot:
                i += 1
            while words[j] < pivot:
                j -= 1
            if i <= j:
                words[i], words[j] = words[j], words[i]
                i += 1
                j -= 1
        if width - 1 <= j:
            high = j
        elif width - 1 >= i:
            low = i
        else:
            return


@numba.njit(nogil=True, cache=True)
def _key_of(high: int) -> float:
    """The float32 key that `high`, the upper half of a word, stands for."""
    word = np.empty(1, np.int32)
    word[0] = high if high >= 0 else high ^ 0x7FFFFFFF
    key: float = word.view(np.float32)[0]
    return key


@numba.njit(nogil=True, cache=True)
def _merge(scores: Array, first_id: int, best: Array, ids: Array, first: int, last: int) -> None:
    depth = best.shape[1]
    for q in range(first, last):
        threshold = best[q, depth - 1]
        for g in range(scores.shape[1]):
            value = scores[q, g]
            if value > threshold:
                k = depth - 1
                while k > 0 and best[q, k - 1] < value:
                    best[q, k], ids[q, k] = best[q, k - 1], ids[q, k - 1]
                    k -= 1
                best[q, k], ids[q, k] = value, first_id + g
                threshold = best[q, depth - 1]
