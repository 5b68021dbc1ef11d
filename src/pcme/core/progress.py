"""Progress: how far a long task is, reported to whoever wants to show it."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """A callback for long tasks: `progress("images", 3, 8)` reports three of eight images done.

    A total of None is not known yet. One callback may follow several tasks, each by its name.
    """

    def __call__(self, task: str, done: int, total: int | None, /) -> None:
        """Report that `done` of `total` steps of a task are done."""


def silent(task: str, done: int, total: int | None, /) -> None:
    """No-op progress callback."""


def named(progress: Progress, task: str) -> Progress:
    """Report every task under one name."""
    return lambda _, done, total: progress(task, done, total)


def part_of(progress: Progress, part: int, parts: int) -> Progress:
    """Report one of several equal parts of a task as a share of the whole task."""

    def report(task: str, done: int, total: int | None, /) -> None:
        size = total or 0
        progress(task, part * size + done, None if total is None else parts * size)

    return report
