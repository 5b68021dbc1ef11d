"""Batching: a thread that does all that waits for the same work in one pass.

While one pass runs, the next one collects. A lone request never waits for others. While several ask at once, a pass
waits a few milliseconds for more of them: it costs little more for many than for one.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol


class Work(Hashable, Protocol):
    """What is done to items; jobs of equal work share a pass."""

    def __call__(self, items: Sequence[Any], /) -> Sequence[Any]:
        """One result per item."""


class FullError(Exception):
    """As many jobs wait as may."""


class ClosedError(Exception):
    """No more jobs are taken: the server ends."""


@dataclass(frozen=True, eq=False)
class _Job:
    work: Work
    item: object
    future: Future[Any] = field(default_factory=Future)


class Batcher:
    """A queue of jobs and the one thread that works on them, oldest first.

    >>> from functools import partial
    >>> lengths = Batcher("lengths", waiting=8)
    >>> lengths.submit(partial(map, len), "abc").result()
    3
    >>> lengths.close()
    """

    def __init__(
        self,
        name: str,
        *,
        waiting: int,
        batch: int = 1,
        linger: float = 0.0,
        observe: Callable[[int], object] = lambda size: None,
    ) -> None:
        """`waiting` jobs wait at most, `batch` of equal work are done at once; `observe` is told each number.

        `linger` is how many seconds a pass waits for more, while more than one job comes at a time.
        """
        self.waiting, self.batch, self.linger, self._observe = waiting, batch, linger, observe
        self._several = False
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, work: Work, item: object) -> Future[Any]:
        """Queue a job; a cancelled one that has not begun is left out."""
        with self._changed:
            if self._closing:
                raise ClosedError
            if len(self._jobs) >= self.waiting:
                raise FullError
            self._jobs.append(job := _Job(work, item))
            if len(self._jobs) in (1, self.batch):  # what the thread waits for
                self._changed.notify()
        return job.future

    def close(self) -> None:
        """Take no more jobs, finish those that wait, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while jobs := self._next():
            self._answer([job for job in jobs if job.future.set_running_or_notify_cancel()])

    def _next(self) -> list[_Job]:
        """The oldest job and others of equal work; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closing)
            if not self._jobs:
                return []
            if self._several or len(self._jobs) > 1:
                self._changed.wait_for(lambda: len(self._jobs) >= self.batch or self._closing, self.linger)
            self._several = len(self._jobs) > 1
            work, taken, rest = self._jobs[0].work, list[_Job](), deque[_Job]()
            for job in self._jobs:
                (taken if len(taken) < self.batch and job.work == work else rest).append(job)
            self._jobs = rest
            return taken

    def _answer(self, jobs: Sequence[_Job]) -> None:
        if not jobs:
            return
        try:
            results = list(jobs[0].work([job.item for job in jobs]))
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
                return
            for job in jobs:  # one of them is at fault; the others get their answers
                self._answer([job])
            return
        self._observe(len(jobs))
        for job, result in zip(jobs, results, strict=True):
            job.future.set_result(result)
