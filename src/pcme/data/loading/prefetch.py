"""Work done ahead by threads, results in order.

Threads, not processes: decoding, resizing and numpy release the interpreter's lock, so threads keep
all cores busy (in `make bench`), start at once, copy nothing between processes, and are safe beside
compiled kernels and CUDA, where forking is not. torch's DataLoader has only processes.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from pcme.errors import ConfigError

A = TypeVar("A")
B = TypeVar("B")

AHEAD = 2
"""Results that wait per worker; bounds the memory."""


def ordered(work: Callable[[A], B], tasks: Iterable[A], *, workers: int) -> Iterator[B]:
    """work(task) for every task, in the order of the tasks, computed by so many threads.

    With 0 workers the caller's thread does it. An error appears where its result would have.

    >>> list(ordered(lambda x: x * x, [1, 2, 3], workers=2))
    [1, 4, 9]
    """
    if workers < 0:
        raise ConfigError(f"workers: must be at least 0, got {workers}.")
    if workers == 0:
        return map(work, tasks)
    return _threaded(work, iter(tasks), workers)


def _threaded(work: Callable[[A], B], tasks: Iterator[A], workers: int) -> Iterator[B]:
    with ThreadPoolExecutor(workers, thread_name_prefix="pcme-data") as pool:
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
