"""Faults: what stops a run from outside, said so that it can be mended.

A full disk and too little memory are no defects: the message says where, at which step, and what
to go on from.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pcme.errors import ConfigError, FormatError
from pcme.training import checkpoint
from pcme.training.runs import Run

__all__ = ["explained"]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_TEXTS = tuple(f"(os error {number})" for number in sorted(_FULL))  # as Rust writes them
_MEMORY_TEXTS = ("can't allocate memory", "not enough memory", "out of memory")


@contextmanager
def explained(run: Run) -> Iterator[None]:
    """Within the `with` block, a full disk and too little memory become errors a user can mend."""
    try:
        yield
    except Exception as error:
        if (cause := _full_disk(error)) is not None:
            raise FormatError(
                f"{run.folder}: the disk is full at step {run.position.total} ({cause}) - "
                f"{checkpoint.last_good(run.checkpoints)} - make room, then --resume goes on"
            ) from error
        if _out_of_memory(error):
            recipe, reason = run.recipe, str(error).partition("\n")[0] or type(error).__name__
            raise ConfigError(
                f"out of memory at step {run.position.total} ({reason}) - a batch has "
                f"{recipe.sampling.batch_size} pairs with images of {recipe.augment.size} pixels a "
                "side - lower sampling.batch_size or augment.size and begin a new run, or --resume "
                f"where there is more memory: {checkpoint.last_good(run.checkpoints)}"
            ) from error
        raise


def _full_disk(error: BaseException | None) -> BaseException | None:
    """Which of an error and its causes says that the disk, or a quota, is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return error
        if any(text in str(error) for text in _FULL_TEXTS):
            return error
        error = error.__cause__
    return None


def _out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _MEMORY_TEXTS)
