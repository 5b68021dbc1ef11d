"""Compiled loops of a search: the keys of one query, and the best of a stream of keys or scores."""

import numba
import numpy as np
from jaxtyping import Float32

from pcme.kernels.threads import Array, run_slices


def products(
    items: Float32[np.ndarray, "n d"],
    query: Float32[np.ndarray, " d"],
    offsets: Float32[np.ndarray, " n"],
    threads: int,
) -> Float32[np.ndarray, " n"]:
    """⟨item, query⟩ + offset in single precision, at the speed of the memory, of which libraries reach a third.

    >>> products(np.eye(2, dtype="f4"), np.array([3, 4], "f4"), np.array([0, 1], "f4"), 1)
    array([3., 5.], dtype=float32)
    """
    out = np.empty(len(items), np.float32)
    run_slices(lambda a, b: _products(items, query, offsets, out, a, b), len(items), threads)
    return out


class BestKeys:
    """The `width` largest of a stream of float32 keys for each query; ties keep the lower id.

    A key and its id become one integer that sorts by key, then by id; a buffer of twice the width is cut back by
    quickselect whenever it is full, so an entry costs O(1) whatever the width.
    """

    def __init__(self, queries: int, width: int, threads: int) -> None:
        self.width, self.threads = width, threads
        self._words = np.empty((queries, 2 * width), np.int64)
        self._count = np.zeros(queries, np.int64)
        self._threshold = np.full(queries, -np.inf, np.float32)

    def add(self, keys: Array, first_id: int) -> None:
        """A block of keys [queries, g] for the items from `first_id` on."""
        views, state = (keys, keys.view(np.int32)), (self._words, self._count, self._threshold)
        run_slices(lambda a, b: _add_keys(views, first_id, state, self.width, a, b), len(keys), self.threads)

    def result(self) -> tuple[Array, Array]:
        """(keys, ids), [queries, width] each, the best first; needs as many items as `width`."""
        words, count = self._words, self._count
        run_slices(lambda a, b: _cut_all(words, count, self.width, a, b), len(count), self.threads)
        words = -np.sort(-self._words[:, : self.width], axis=1)
        high = (words >> 32).astype(np.int32)
        keys = np.where(high < 0, high ^ 0x7FFFFFFF, high).astype(np.int32).view(np.float32)
        return keys, 0xFFFFFFFF - (words & 0xFFFFFFFF)


def merge_topk(scores: Array, first_id: int, best: Array, ids: Array, threads: int) -> None:
    """Fold a block of scores [q, g] into the best so far, in place; ties keep the lower id."""
    run_slices(lambda a, b: _merge(scores, first_id, best, ids, a, b), len(scores), threads)


@numba.njit(nogil=True, cache=True)
def _add_keys(
    keys_and_bits: tuple[Array, Array], first_id: int, state: tuple[Array, ...], width: int, first: int, last: int
) -> None:
    (keys, bits), (words, count, threshold) = keys_and_bits, state
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


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _products(items: Array, query: Array, offsets: Array, out: Array, first: int, last: int) -> None:
    for n in range(first, last):
        total = np.float32(0)
        for d in range(len(query)):
            total += items[n, d] * query[d]
        out[n] = offsets[n] + total
