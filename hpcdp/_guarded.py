"""Work in a forked copy of a command's process: a mechanism that ends its process, as `os._exit(0)` does, ends that copy."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, TypeVar

from hpcdp.errors import MechanismError

Found = TypeVar("Found")
Note = Callable[[str], None]

_is_command = False


def command_begins() -> None:
    """This process is a command's own: nobody else's threads or libraries at work are in it, so that it can be forked."""
    global _is_command
    _is_command = True


def guarded(work: Callable[[Note], Found], note: Note) -> Found:
    """What `work` returns or raises, done in a copy of this process; MechanismError when the copy ends without a word.

    Where this process is no command's own, is no Linux process, or has threads, the work is done here: a copy would have
    only one of the threads, and locks that the others hold.
    """
    if not _is_command or sys.platform != "linux" or threading.active_count() > 1:
        return work(note)
    reader, writer = Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads within BLAS, which minds forks itself
        child = os.fork()
    if child == 0:
        _work(work, writer)
    writer.close()
    ends, is_reaped = os.pidfd_open(child), False
    try:
        while True:
            with suppress(EOFError):
                if reader in wait([reader, ends]):
                    what, found = reader.recv()
                    if what == "note":
                        note(found)
                        continue
                    if what == "raised":
                        raise found
                    return found
            code, is_reaped = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), True
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise MechanismError(f"the mechanism's process {how}; accepted: outputs, or an exception")
    finally:
        if not is_reaped:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(ends)
        reader.close()


def _work(work: Callable[[Note], Any], writer: Connection) -> None:
    """The copy's side; it never returns."""
    try:
        try:
            message = "done", work(lambda text: writer.send(("note", text)))
        except BaseException as error:  # an interruption too: whoever sent it is told by the process that waits
            message = "raised", error
        writer.send(message)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(1)
