"""What a mechanism prints goes to standard error: standard output is for results."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

_lock = Lock()
_inside = 0
_kept: tuple[Any, int | None] = (None, None)  # sys.stdout, and a copy of descriptor 1


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """What is printed inside, by Python, by C or by a child process, goes to standard error.

    Descriptors and sys.stdout are the process's, so the last thread that leaves puts them back.
    """
    global _inside, _kept
    with _lock:
        if _inside == 0:
            _kept = sys.stdout, _divert()
            sys.stdout = sys.stderr
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _flush()
                sys.stdout, copy = _kept
                if copy is not None:
                    os.dup2(copy, 1)
                    os.close(copy)


def end_results() -> None:
    """From now on this process prints to standard error: a command's results are written, what others print at exit is none."""
    _divert()
    sys.stdout = sys.stderr


def _divert() -> int | None:
    """Point descriptor 1 where 2 points; a copy of what it was, or None where one of them is closed."""
    _flush()
    try:
        copy = os.dup(1)
    except OSError:
        return None
    try:
        os.dup2(2, 1)
    except OSError:
        os.close(copy)
        return None
    return copy


def _flush() -> None:
    """Empty Python's buffer and C's: what waits in them belongs to where standard output pointed so far."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)
