"""What a mechanism prints goes to standard error: standard output is for results."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from typing import Any

from hpcdp._base.descriptors import hold, let_go, lost
from hpcdp._base.shared import while_inside


def end_results() -> None:
    """From now on this process prints to standard error: a command's results are written, what others print at exit is none."""
    _divert()
    sys.stdout = sys.stderr


def _to_stderr() -> tuple[Any, int | None]:
    before = sys.stdout, _divert()
    if before[1] is not None:
        hold(before[1])
    sys.stdout = sys.stderr
    return before


def _put_back(before: tuple[Any, int | None]) -> None:
    _flush()
    sys.stdout, copy = before
    if copy is None:
        return
    is_lost = copy in lost()
    let_go(copy)
    if is_lost and sys.exc_info()[1] is not None:  # which tells more
        return
    os.dup2(copy, 1)
    os.close(copy)


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


printing_to_stderr = while_inside(_to_stderr, _put_back)
"""What is printed inside, by Python, by C or by a child process, goes to standard error."""
