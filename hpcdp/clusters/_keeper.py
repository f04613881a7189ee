"""Keeps a worker process of this machine alive; run as a script by `_processes`, one for each worker.

It forks the worker from itself, with the libraries loaded, so that one that ends is replaced at once. Whatever a worker has
started ends with it, on Linux in whatever session it is: orphans become children of the keeper (PR_SET_CHILD_SUBREAPER),
which kills them. The driver's end of standard input says when to stop: a byte, to replace no more; its end, even by SIGKILL,
to kill all. If the keeper itself is killed, its worker dies with it (PR_SET_PDEATHSIG), and the driver kills its group.
"""

from __future__ import annotations

import ctypes
import gc
import io
import os
import pickle
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_IS_LINUX = sys.platform == "linux"
_LONGEST = 5.0  # seconds in which killed processes are waited for; those of another user may not be killed
_AGAIN = 0.25  # seconds from one fork to the next: what ends as it starts must not keep a core busy


def main() -> None:
    """Read what to serve, load it, and keep a worker that does so until standard input ends."""
    told = io.BytesIO(_read(int.from_bytes(_read(8), "big")))
    preparation = pickle.load(told)
    sys.path[:] = preparation["sys_path"]
    from hpcdp.clusters._serving import Serving, serve

    serving: Serving = pickle.load(told)
    gc.freeze()  # what is loaded stays shared with the workers
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keeper = _Keeper()
    while worker := keeper.fork():
        begin = time.monotonic()
        is_over = keeper.watch(worker)
        _kill_below(os.getpid())
        if is_over:
            os.killpg(0, signal.SIGKILL)
        time.sleep(max(0.0, begin + _AGAIN - time.monotonic()))
        serving = serving.again()
    serve(serving, preparation)


def _read(size: int) -> bytes:
    """So many bytes of standard input, and none that come later."""
    found = b""
    while len(found) < size:
        if not (some := os.read(0, size - len(found))):
            os._exit(1)  # the driver is gone
        found += some
    return found


class _Keeper:
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
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self._ended)
            os.close(self._wake)
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), 0)
        return worker

    def watch(self, worker: int) -> bool:
        """Wait until the worker ends or the driver does; whether no worker is to follow."""
        while not _reap(worker):
            ready = dict(self._poll.poll())
            if 0 in ready:
                if not os.read(0, 1):
                    return True
                self._replaces = False
            with suppress(BlockingIOError):
                os.read(self._ended, 4096)
        return not self._replaces


def _reap(worker: int) -> bool:
    """Reap all children that ended; whether the worker was among them."""
    found = False
    with suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            found = found or pid == worker
    return found


def _kill_below(keeper: int) -> None:
    """Kill all children, and theirs as they become ours."""
    end = time.monotonic() + _LONGEST
    while (below := _children(keeper)) and time.monotonic() < end:
        for child in below:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
        _reap(0)


def _children(parent: int) -> list[int]:
    """Children of a process, dead ones too; none where there is no /proc."""
    found = []
    for name in os.listdir("/proc") if _IS_LINUX else []:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{int(name)}/stat", "rb") as stat:
            if int(stat.read().rpartition(b")")[2].split()[1]) == parent:  # one may end while it is looked at
                found.append(int(name))
    return found


def _prctl(option: int, value: int) -> Any:
    return ctypes.CDLL(None).prctl(option, value, 0, 0, 0) if _IS_LINUX else None


if __name__ == "__main__":
    main()
