"""Interrupts: Ctrl-C waits until the step is done."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def defer_interrupts() -> Iterator[Callable[[], None]]:
    """A function to call between steps: it raises the KeyboardInterrupt that came before.

    A second Ctrl-C within the `with` block does not wait. In another thread than the main one, and where somebody else
    handles Ctrl-C, everything stays as it is.
    """
    interrupted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        check()
        interrupted = True

    def check() -> None:
        if interrupted:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
