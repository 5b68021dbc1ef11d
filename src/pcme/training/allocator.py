"""The allocator of a CPU run: memory that a step frees is kept for the next one.

A step allocates the same large tensors as the one before. By default glibc gives them back to the kernel when they are
freed, and the kernel clears every page of them again.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The names of glibc's parameters (malloc.h)."""
LARGEST = 2**31 - 1
USUAL = 32 << 20
"""Where glibc's own threshold, which grows with what is freed, ends on 64-bit systems."""


@contextmanager
def keep_freed() -> Iterator[bool]:
    """Within the `with` block the process keeps memory that it frees; then it is given back.

    The setting is one of the whole process. glibc does not tell the former one, so afterwards it is the largest that
    glibc chooses itself. False where the C library has no such setting.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt"):
        yield False
        return
    accepted = library.mallopt(MMAP_THRESHOLD, LARGEST) and library.mallopt(TRIM_THRESHOLD, LARGEST)
    try:
        yield bool(accepted)
    finally:
        library.mallopt(MMAP_THRESHOLD, USUAL)
        library.mallopt(TRIM_THRESHOLD, 2 * USUAL)
        library.malloc_trim(0)
