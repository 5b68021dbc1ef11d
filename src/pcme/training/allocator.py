"""Memory of a CPU run: what a step frees is kept for the next one.

A step allocates the same large tensors as the one before. By default glibc gives them back to the
kernel when they are freed, and the kernel clears every page of them again.
"""

import ctypes
import sys

__all__ = ["keep_freed"]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The names of glibc's parameters (malloc.h)."""
LARGEST = 2**31 - 1


def keep_freed() -> bool:
    """Let the process keep memory that it frees; False where the C library has no such choice."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST)) and bool(mallopt(TRIM_THRESHOLD, LARGEST))
