"""Faults: external failures with a remedy, a full disk and too little memory."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pcme.errors import ConfigError, FormatError
from pcme.training import checkpoint
from pcme.training.runs import Run

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_TEXTS = tuple(f"(os error {number})" for number in sorted(_FULL))  # as Rust writes them
_MEMORY_TEXTS = ("can't allocate memory", "not enough memory", "out of memory")


@contextmanager
def explain_faults(run: Run) -> Iterator[None]:
    """Within the `with` block, a full disk and too little memory become errors with a remedy.

    The message says where, at which step, and from which checkpoint to resume.
    """
    try:
        yield
    except Exception as error:
        last = checkpoint.last_good(run.checkpoints)
        if (cause := _full_disk(error)) is not None:
            raise FormatError(
                f"{run.folder}: the disk is full at step {run.position.total}, got {cause}. Make room, then continue "
                f"with --resume; {last}."
            ) from error
        if _out_of_memory(error):
            raise ConfigError(f"{_memory(run, error)}; {last}.") from error
        raise


def _memory(run: Run, error: Exception) -> str:
    sampling, size = run.recipe.sampling, run.recipe.augment.size
    key = "batch_size" if sampling.kind == "pairs" else "classes_per_batch"
    pairs = len(run.sampler.epoch(0)[0])
    reason = str(error).partition("\n")[0] or type(error).__name__
    return (
        f"out of memory at step {run.position.total}, got {reason}. A batch has {pairs} pairs with images of {size} "
        f"pixels per side. Lower sampling.{key} or augment.size and start a new run, or --resume where there is more "
        "memory"
    )


def _full_disk(error: BaseException | None) -> BaseException | None:
    """The error or cause that says that the disk, or a quota, is full."""
    while error is not None:
        by_number = isinstance(error, OSError) and error.errno in _FULL
        if by_number or any(text in str(error) for text in _FULL_TEXTS):
            return error
        error = error.__cause__
    return None


def _out_of_memory(error: Exception) -> bool:
    by_text = isinstance(error, RuntimeError) and any(text in str(error) for text in _MEMORY_TEXTS)
    return by_text or isinstance(error, MemoryError | torch.OutOfMemoryError)
