"""The processes below one of ours: orphans become its children, on Linux in whatever session they are, and it kills them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36  # linux/prctl.h
_IS_LINUX = sys.platform == "linux"
_LONGEST = 5.0  # seconds in which killed processes are waited for; those of another user may not be killed


@dataclass(frozen=True)
class Child:
    """A child that leads a process group and kills what is below it when its standard input ends. pipe: our end of that."""

    pid: int
    pipe: int

    def say(self, words: bytes) -> None:
        """Write to its standard input."""
        with suppress(BrokenPipeError):  # it was killed already, which the next look finds
            os.write(self.pipe, words)

    def has_ended(self) -> bool:
        """Whether it has, without reaping it: its number must stay its group's."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def close(self) -> None:
        """Have it kill all that is below it."""
        os.close(self.pipe)

    def bury(self, seconds: float) -> int:
        """Wait so long for its end; its group goes with it, even if it was killed, or is frozen. Its exit code."""
        end = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < end:
            time.sleep(0.002)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


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
