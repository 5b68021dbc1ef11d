"""The compiled loop of a scan: one query against many items, at the speed of the memory.

A library's matrix-vector product reads at a third of it; many queries at once are a matrix product,
and need no loop of ours.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numba
import numpy as np
from jaxtyping import Float32

from pcme.kernels.compiled import Array

__all__ = ["products"]


def products(
    items: Float32[np.ndarray, "n d"],
    query: Float32[np.ndarray, " d"],
    own: Float32[np.ndarray, " n"],
    threads: int,
) -> Float32[np.ndarray, " n"]:
    """⟨item, query⟩ + own, in single precision, summed in any order.

    >>> products(np.eye(2, dtype="f4"), np.array([3, 4], "f4"), np.array([0, 1], "f4"), 1)
    array([3., 5.], dtype=float32)
    """
    out = np.empty(len(items), np.float32)
    edges = [len(items) * n // threads for n in range(threads + 1)]
    parts = [
        _pool().submit(_products, items, query, own, out, *edge) for edge in pairwise(edges[1:])
    ]
    _products(items, query, own, out, 0, edges[1])
    for part in parts:
        part.result()
    return out


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="pcme-scan")


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _products(items: Array, query: Array, own: Array, out: Array, first: int, last: int) -> None:
    for n in range(first, last):
        total = np.float32(0)
        for d in range(len(query)):
            total += items[n, d] * query[d]
        out[n] = own[n] + total
