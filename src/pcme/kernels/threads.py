"""The thread pool that drives compiled loops and draws samples."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy.typing as npt

Array = npt.NDArray[Any]
T = TypeVar("T")
R = TypeVar("R")


def run_slices(kernel: Callable[[int, int], object], rows: int, threads: int) -> None:
    """Call `kernel(start, stop)` over [0, rows) in as many slices as threads."""
    workers = max(1, min(threads, rows))
    edges = [rows * i // workers for i in range(workers + 1)]
    futures = [_pool().submit(kernel, a, b) for a, b in pairwise(edges[1:])]
    kernel(0, edges[1])
    for future in futures:
        future.result()


def run_each(task: Callable[[T], R], arguments: Iterable[T]) -> list[R]:
    """The results of a task for each argument, in order."""
    return list(_pool().map(task, arguments))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="pcme-kernels")
