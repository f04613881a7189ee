"""A limit for what might hang, so that a test fails and says where it was."""

import faulthandler
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """Raise AssertionError in the main thread, and print where all threads are, when this takes longer; limits may be nested."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        faulthandler.dump_traceback(sys.__stderr__ or 2)
        raise AssertionError(f"{what} did not end within {seconds:g} s")

    begin = time.monotonic()
    before = signal.signal(signal.SIGALRM, late)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if left:  # the limit around this one
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (time.monotonic() - begin)))
