"""Interruptions at moments when an exception would leave processes behind: they wait, or are ignored."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any


@contextmanager
def deferred() -> Iterator[None]:
    """Start processes within: Ctrl-C and SIGTERM come when it ends, and Ctrl-C never reaches the processes themselves.

    A terminal sends Ctrl-C to all processes at once. Those that start here, and those that their threads start later,
    inherit a mask that holds SIGINT back: the driver alone decides when they end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # when it starts later, Python takes the mask away from the thread that starts it
    terminated: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: terminated.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if terminated:  # in place of what its death did to processes that were starting
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def ignored() -> Iterator[None]:
    """End processes within: a second Ctrl-C or SIGTERM changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before: list[Any] = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
