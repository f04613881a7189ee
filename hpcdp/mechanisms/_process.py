"""A program as a child process: its three pipes with deadlines, and its end, whatever ends this process.

It gets a process group of its own, and ends with this process, which the server of a node executor looks after.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.signals import how_ended
from hpcdp._base.threads import program_environment
from hpcdp.errors import MechanismError

LONGEST_LINE = 1 << 16
"""Bytes of the longest line that a program may write."""

_PIPE_BYTES = 1 << 20
_LOOK_AGAIN = 1.0  # seconds after which a program that writes nothing is looked at: it may have ended
_POLITE = 1.0  # seconds that a program gets to end by itself once its input ends
_KEPT_ERRORS = 1 << 13  # last bytes of standard error that are kept
_SHOWN_LINES = 5
_SHOWN_CHARACTERS = 400
_NOT_PASSED = ("PYTHONPATH", "PYTHONHOME")  # they belong to this Python, not to the program's


class OutOfTime(Exception):
    """A deadline passed."""


class Process:
    """A running program. Every failure to talk to it is a MechanismError, or OutOfTime for the caller to word."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        """Start it."""
        environment = {name: value for name, value in program_environment().items() if name not in _NOT_PASSED}
        pipe = subprocess.PIPE
        try:
            self._child = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                bufsize=0,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise MechanismError(f"the program cannot be started: {error}") from error
        self._end = weakref.finalize(self, _end, self._child)  # also at this process's exit
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._input, self._output = self._child.stdin.fileno(), self._child.stdout.fileno()
        self._errors = self._child.stderr.fileno()
        for pipe in (self._input, self._output, self._errors):
            os.set_blocking(pipe, False)
            with suppress(OSError, AttributeError):  # larger pipes are only faster, and only Linux has them
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._unread = b""
        self._said = b""

    @property
    def pid(self) -> int:
        """Number of the program's process, and of its group."""
        return self._child.pid

    def end(self) -> None:
        """Close its input, on which it should end by itself; kill what is left of its group soon after."""
        self._end()

    def kill(self) -> None:
        """End the program, and all that it started, at once."""
        _kill_group(self._child)
        self._end()

    def write(self, data: bytes | memoryview, deadline: float) -> None:
        """Write all of it."""
        left = memoryview(data).cast("B")
        while left.nbytes:
            self._wait(self._input, select.POLLOUT, deadline)
            try:
                left = left[os.write(self._input, left) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._ended() from None

    def read_line(self, deadline: float) -> bytes:
        """The next line without its end; at most LONGEST_LINE bytes, else what was read so far."""
        while b"\n" not in self._unread and len(self._unread) <= LONGEST_LINE:
            self._wait(self._output, select.POLLIN, deadline)
            data = self._read(LONGEST_LINE)
            if not data and self._unread:  # words without an end of line tell more than that it ended
                line, self._unread = self._unread, b""
                return line
            if not data:
                raise self._ended()
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def read_into(self, array: NDArray[np.uint8], deadline: float) -> None:
        """Fill the whole array from the pipe; only what came with the line before is copied."""
        target = array.data
        head = self._unread[: target.nbytes]
        target[: len(head)], self._unread = head, self._unread[len(head) :]
        target = target[len(head) :]
        while target.nbytes:
            self._wait(self._output, select.POLLIN, deadline)
            try:
                count = os.readv(self._output, [target])
            except BlockingIOError:
                continue
            if not count:
                raise self._ended()
            target = target[count:]

    def take_unasked(self) -> bytes:
        """What the program has written although it was asked nothing."""
        if select.select([self._output], [], [], 0)[0]:
            self._unread += self._read(LONGEST_LINE)
        data, self._unread = self._unread, b""
        return data

    def describe_errors(self) -> str:
        """The last lines of its standard error, as the end of a message; empty where there are none."""
        self._drain_errors()
        lines = [line.strip() for line in self._said.decode(errors="replace").splitlines() if line.strip()]
        text = " | ".join(lines[-_SHOWN_LINES:])
        text = text if len(text) <= _SHOWN_CHARACTERS else "…" + text[-_SHOWN_CHARACTERS:]
        return f"; its standard error ends: {text}" if text else ""

    def _read(self, size: int) -> bytes:
        try:
            return os.read(self._output, size)
        except BlockingIOError:
            return b""

    def _wait(self, pipe: int, event: int, deadline: float) -> None:
        """Until the pipe can be read or written; standard error is emptied meanwhile, or the program might block on it."""
        poll = select.poll()
        poll.register(pipe, event)
        poll.register(self._errors, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise OutOfTime
            ready = dict(poll.poll(1000 * min(left, _LOOK_AGAIN)))
            if pipe in ready:
                return
            if self._errors in ready and not self._drain_errors():
                poll.unregister(self._errors)
            if not ready and self._child.poll() is not None:
                raise self._ended()

    def _drain_errors(self) -> bool:
        """Read what is there of standard error; False at its end."""
        while True:
            try:
                data = os.read(self._errors, LONGEST_LINE)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._said = (self._said + data)[-_KEPT_ERRORS:]

    def _ended(self) -> MechanismError:
        """That it closed its output, or ended: how, and its last words."""
        try:
            code = self._child.wait(_LOOK_AGAIN)
        except subprocess.TimeoutExpired:
            how = "closed its standard output before it had answered"
        else:
            how = how_ended(code)
        return MechanismError(f"the program {how}{self.describe_errors()}")


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        child.stdin.close()
    end = time.monotonic() + _POLITE
    while _is_running(child) and time.monotonic() < end:
        time.sleep(0.005)
    _kill_group(child)
    child.wait()
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()


def _is_running(child: subprocess.Popen[bytes]) -> bool:
    """Whether a child has not ended, without reaping it."""
    if child.returncode is not None:
        return False
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended already
        os.killpg(child.pid, signal.SIGKILL)
