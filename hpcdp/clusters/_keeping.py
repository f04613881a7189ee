"""What a keeper of a worker waits for."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from hpcdp._below import die_with, reap


class Keeper:
    """Waits for the end of a worker, and for what the driver says."""

    def __init__(self) -> None:
        self._ended, self._wake = os.pipe()
        os.set_blocking(self._ended, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._ended, select.POLLIN)
        self._replaces = True

    def fork(self) -> int:
        """The process of a new worker; in it, 0."""
        keeper = os.getpid()
        worker = os.fork()
        if worker == 0:
            die_with(keeper)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self._ended)
            os.close(self._wake)
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), 0)
        return worker

    def watch(self, worker: int) -> bool:
        """Wait until the worker ends or the driver does; whether no worker is to follow."""
        while reap(worker) is None:
            ready = dict(self._poll.poll())
            if 0 in ready:
                if not os.read(0, 1):
                    return True
                self._replaces = False
            with suppress(BlockingIOError):
                os.read(self._ended, 4096)
        return not self._replaces
