"""Blocks of rows: large matrices are worked through in pieces that fit in cache."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float

MEMORY_BUDGET = 512 * 2**20
"""Bytes that the temporaries of all workers together may take, whatever the size of the input."""

BLOCK_BYTES = 16 * 2**20
"""Temporaries of one block of rows: small enough to stay in cache, large enough to hide Python."""
_TILE = 512  # columns copied at once from a transposed matrix: six times faster than a plain copy


def row_blocks(rows: int, *, row_bytes: int) -> Iterator[slice]:
    """Return slices that cover `rows`, each of about BLOCK_BYTES."""
    step = max(1, BLOCK_BYTES // row_bytes)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def read_rows(scores: Float[np.ndarray, "q g"], rows: slice) -> Float[np.ndarray, "b g"]:
    """Some rows of a score matrix, each contiguous in memory; fast for a transposed matrix too.

    >>> read_rows(np.eye(3).T, slice(1, 2))
    array([[0., 1., 0.]])
    """
    block = scores[rows]
    if block.flags.c_contiguous:
        return block
    copy = np.empty(block.shape, block.dtype)
    for start in range(0, block.shape[1], _TILE):
        copy[:, start : start + _TILE] = block[:, start : start + _TILE]
    return copy


def each_block(work: Callable[[slice], None], rows: int, *, row_bytes: int) -> None:
    """Call `work` on slices that cover `rows`, from as many threads as torch uses: sorting releases the lock.

    A block takes about BLOCK_BYTES (at least one row), all blocks in flight at most MEMORY_BUDGET.

    >>> each_block(print, 3, row_bytes=MEMORY_BUDGET)
    slice(0, 1, None)
    slice(1, 2, None)
    slice(2, 3, None)
    """
    blocks = list(row_blocks(rows, row_bytes=row_bytes))
    workers = min(torch.get_num_threads(), len(blocks), max(1, MEMORY_BUDGET // row_bytes))
    if workers <= 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, blocks))
