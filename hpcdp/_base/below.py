"""The processes below one of ours: orphans become its children, on Linux in whatever session they are, and it kills them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36  # linux/prctl.h
_IS_LINUX = sys.platform == "linux"
_LONGEST = 5.0  # seconds in which killed processes are waited for; those of another user may not be killed


def adopt_orphans() -> None:
    """From now on whatever is left below this process becomes its child."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """In a fork of this process: be killed when it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def name_process(name: str) -> None:
    """What `ps -e` and `top` call this process; up to 15 characters."""
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def reap(child: int) -> int | None:
    """Reap all children that ended; the status of this one if it was among them."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found = ended[1] if ended[0] == child else found
    return found


def kill_below() -> None:
    """Kill all children, and theirs as they become ours."""
    end = time.monotonic() + _LONGEST
    while (below := children(os.getpid())) and time.monotonic() < end:
        for child in below:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
        reap(0)


def children(parent: int) -> list[int]:
    """Children of a process, dead ones too; none where there is no /proc."""
    found = []
    for name in os.listdir("/proc") if _IS_LINUX else []:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{int(name)}/stat", "rb") as stat:
            if int(stat.read().rpartition(b")")[2].split()[1]) == parent:  # one may end while it is looked at
                found.append(int(name))
    return found


def _prctl(option: int, value: int) -> None:
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
