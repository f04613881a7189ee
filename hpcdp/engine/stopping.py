"""A request to end a run early and in order: no new tasks, those that run may end, what is committed stays."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hpcdp._base.signals import Once
from hpcdp.errors import HpcdpError

GRACE = 20.0
"""Seconds for which tasks may run on after SIGTERM: batch systems kill some 30 s after it."""
WALLTIME = "the walltime ends"
"""The reason after which another job should go on."""


class Stopped(HpcdpError):
    """The run was asked to end and did; the store can be resumed."""


class Stop:
    """Asked once, by a signal handler or another thread; the driver looks at it between tasks."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._deadline = float("inf")

    def request(self, reason: str, seconds: float) -> None:
        """End within so many seconds; the first reason and the earliest deadline hold."""
        self._deadline = min(self._deadline, time.monotonic() + seconds)
        self.reason = self.reason or reason

    @property
    def is_requested(self) -> bool:
        """Whether no new task may start."""
        return self.reason is not None

    @property
    def is_due(self) -> bool:
        """Whether running tasks may not be waited for any longer."""
        return time.monotonic() >= self._deadline

    def check(self) -> None:
        """Raise Stopped if it was requested."""
        if self.is_requested:
            raise Stopped(self.reason)


@contextmanager
def stopped_by_signals(stop: Stop, drain: float, terminate: bool) -> Iterator[None]:
    """USR1, which comes before the walltime, stops within `drain` seconds; terminate: SIGTERM within GRACE, twice at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_terminate(number: int, frame: Any) -> None:
        if stop.is_requested:
            signal.default_int_handler(number, frame)
        stop.request("SIGTERM came", GRACE)

    before: dict[int, Any] = {signal.SIGUSR1: signal.signal(signal.SIGUSR1, lambda *_: stop.request(WALLTIME, drain))}
    if terminate:
        before[signal.SIGTERM] = signal.signal(signal.SIGTERM, Once(on_terminate))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
