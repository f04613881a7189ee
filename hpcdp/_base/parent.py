"""The parent of a command: it does none of the work, so that nobody else's code can end the command without a word.

The process that the shell started forks at once. Its child works; before it ends it says with which code, in memory that
both share, and at what work of others it is meanwhile: trial draws that take long are named here. Signals are passed on, what
is left below the child ends with it, and it ends with its parent (PR_SET_PDEATHSIG). Only on Linux.
"""

from __future__ import annotations

import atexit
import mmap
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hpcdp._base.below import adopt_orphans, die_with, kill_below, reap
from hpcdp._base.early import telling_end
from hpcdp._base.slow_draws import Slot, note_in, patient
from hpcdp._base.terminal import plain

_PASSED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_HEARD = {*_PASSED, signal.SIGCHLD}
_LOOK = 0.5  # seconds between looks at the child
_AFTER = 5.0  # seconds for which threads and exit handlers of others may go on after the command's word
_SIZE = 4096
_SAID, _RISK = 0, 8  # where in the memory: 1 and the exit code; the length of a text, the exit code, the text

_memory: mmap.mmap | None = None
_worker = 0


def fork_command() -> int | None:
    """None in the process that is to do the work; in its parent the exit code, once that has ended."""
    global _memory, _worker
    if sys.platform != "linux" or threading.active_count() > 1:
        return None
    memory, parent = mmap.mmap(-1, _SIZE + Slot.size), os.getpid()
    drawing = Slot(memory, _SIZE)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    try:
        child = os.fork()
    except OSError:  # no process is left; the work is done here
        child = -1
    if child > 0:
        return _attend(child, memory, drawing)
    if child == 0:
        die_with(parent)
        _memory, _worker = memory, os.getpid()
        note_in(drawing)
        telling_end(say_end)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return None


def say_end(code: int) -> None:
    """The command's work is over, with this exit code."""
    if _memory is not None and os.getpid() == _worker:
        _memory[_SAID : _SAID + 2] = bytes((1, code))


def leave(code: int) -> None:
    """End the command's own process as Python does, but for taking libraries apart, which takes a tenth of a small run."""
    if _memory is None or os.getpid() != _worker:
        return
    threading._shutdown()  # type: ignore[attr-defined]  # threads of others that are to be waited for
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # Python says what it cannot write
    import ctypes

    ctypes.PyDLL(None).exit(code)  # of C, whose libraries write what they hold, and which holds the lock of Python


@contextmanager
def no_copy() -> Iterator[Callable[[], None]]:
    """Other people's code runs within: a copy that it makes of this process, by a fork that returns twice, ends here.

    Who calls it again and again calls what this gives after each call: a copy that went on would be copied in turn.
    """
    here = os.getpid()

    def end_copy() -> None:
        if os.getpid() != here:
            os._exit(1)

    try:
        yield end_copy
    finally:
        end_copy()


@contextmanager
def at_risk(what: str, code: int) -> Iterator[None]:
    """Other people's code runs within: should it end this process, the parent names `what` and exits with `code`."""
    before = _memory[_RISK:_SIZE] if _memory is not None and os.getpid() == _worker else None
    if _memory is not None and before is not None:
        text = what.encode(errors="replace")[: _SIZE - _RISK - 3]
        _memory[_RISK : _RISK + 3 + len(text)] = len(text).to_bytes(2, "big") + bytes((code,)) + text
    try:
        with no_copy():
            yield
    finally:
        if _memory is not None and before is not None:
            _memory[_RISK:_SIZE] = before


def end_at_once(what: str, code: int) -> None:
    """Have the parent say what was done here and end with this exit code, where this process can say nothing any more."""
    if _memory is not None and os.getpid() == _worker:
        with at_risk(what, code):
            os._exit(code)


def _attend(child: int, memory: mmap.mmap, drawing: Slot) -> int:
    """Pass signals on until the child ends; the exit code."""
    adopt_orphans()
    came, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in _HEARD:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
    passed: set[int] = set()
    spoke = None
    hear = patient(lambda words: print(plain(words), file=sys.stderr, flush=True))
    while (status := reap(child)) is None:
        # not sigtimedwait, which gives any number where this process is stopped beyond its time and goes on
        numbers = os.read(came, _SIZE) if select.select([came], [], [], _LOOK)[0] else b""
        for number in _PASSED.intersection(numbers):
            passed.add(number)
            os.kill(child, number)
        if message := drawing.read():
            hear(message)
        if memory[_SAID]:
            spoke = spoke or time.monotonic()
            if time.monotonic() - spoke > _AFTER:  # threads or exit handlers of others that do not end
                os.kill(child, signal.SIGKILL)
    kill_below()
    code = os.waitstatus_to_exitcode(status)
    if memory[_SAID]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python takes any other handler away as it ends
        return memory[_SAID + 1] or max(code, 0)
    if -code in passed:  # as it would have ended alone
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    size = int.from_bytes(memory[_RISK : _RISK + 2], "big")
    what = memory[_RISK + 3 : _RISK + 3 + size].decode(errors="replace")
    shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # a bar hides the cursor
    print(f"{shown}hpcdp: {what or 'the work is unfinished'}: the process {how}", file=sys.stderr, flush=True)
    return memory[_RISK + 2] or 1
