"""Work done ahead by threads, results in order.

Threads, not processes as in torch's DataLoader: decoding, resizing and numpy release the interpreter's lock, so threads
keep all cores busy (`make bench`), start at once, copy nothing, and are safe beside compiled kernels and CUDA.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from pcme.core.checks import require

A = TypeVar("A")
B = TypeVar("B")

THREADS = "pcme-data"
"""The beginning of the threads' names."""
AHEAD = 2
"""Results that wait per worker; bounds the memory."""


def ordered(work: Callable[[A], B], tasks: Iterable[A], *, workers: int) -> Iterator[B]:
    """work(task) for every task in order, computed by `workers` threads, or by the caller's thread if 0.

    An error is raised in place of its result.

    >>> list(ordered(lambda x: x * x, [1, 2, 3], workers=2))
    [1, 4, 9]
    """
    require("workers", workers >= 0, "at least 0", workers)
    return _threaded(work, iter(tasks), workers) if workers else map(work, tasks)


def _threaded(work: Callable[[A], B], tasks: Iterator[A], workers: int) -> Iterator[B]:
    pool = ThreadPoolExecutor(workers, thread_name_prefix=THREADS)
    waiting: deque[Future[B]] = deque()
    try:
        waiting.extend(pool.submit(work, task) for task in islice(tasks, AHEAD * workers))
        while waiting:
            done = waiting.popleft().result()
            waiting.extend(pool.submit(work, task) for task in islice(tasks, 1))
            yield done
    finally:  # the caller stopped early, or a task failed
        for future in waiting:
            future.cancel()
        # The garbage collector may end an abandoned iterator in a thread of its pool, which cannot wait for itself.
        pool.shutdown(wait=not threading.current_thread().name.startswith(THREADS))
