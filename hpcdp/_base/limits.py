"""How many files this process may open."""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack, suppress

from hpcdp.errors import StudyError

FEWEST_FILES = 256
"""Open files with which a run surely gets by."""
SPARE_FILES = 8
"""Those that a process with a scheduler can open besides, or its run ends: the commands that end jobs need pipes."""


def refuse_few_files(more: int, what: str) -> None:
    """StudyError where this process may not open so many files beside those that it has open. what: needs them, in words.

    A soft limit that is too low becomes the hard one; one that is enough stays, as workers inherit it.
    """
    open_now = sum(int(name) < open_files() for name in os.listdir("/dev/fd")) - 1  # but for the one that lists them
    if open_files() < open_now + more:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if (limit := open_files()) < open_now + more:
        raise StudyError(
            f"{what}: needs {open_now + more} open files in the process that leads the run, of which {open_now} are open "
            f"already; given: a limit of {limit} (ulimit -Hn); accepted: {open_now + more} and more, or fewer workers"
        )


def may_open(count: int) -> bool:
    """Whether this process may open so many more files now."""
    with suppress(OSError), ExitStack() as opened:
        for _ in range(count):
            opened.enter_context(open(os.devnull))
        return True
    return False


def open_files() -> int:
    """How many files this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return FEWEST_FILES if soft == resource.RLIM_INFINITY else soft
