"""Limits of a process that other people's code may lower, and below which nobody can open or write files."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hpcdp.errors import StudyError

_KEPT = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)

FEWEST_FILES = 256
"""Open files with which a run surely gets by."""


@contextmanager
def kept_limits() -> Iterator[None]:
    """Other people's code runs within; afterwards limits are what they were, as far as the system allows."""
    before = [resource.getrlimit(which) for which in _KEPT]
    try:
        yield
    finally:
        for which, wanted in zip(_KEPT, before, strict=True):
            if (found := resource.getrlimit(which)) != wanted:
                _put_back(which, wanted, found[1])


def refuse_few_files(more: int, what: str) -> None:
    """StudyError where this process may not open so many files beside those that it has open. what: needs them, in words."""
    limit = open_files()
    open_now = sum(int(name) < limit for name in os.listdir("/dev/fd")) - 1  # but for the one that lists them
    if limit < open_now + more:
        raise StudyError(
            f"{what}: needs {open_now + more} open files in the process that leads the run, of which {open_now} are open "
            f"already; given: a limit of {limit} (ulimit -n); accepted: {open_now + more} and more, or fewer workers"
        )


def _put_back(which: int, wanted: tuple[int, int], hard: int) -> None:
    for limits in (wanted, (wanted[0], hard), (hard, hard)):  # nobody but root raises a hard one
        with suppress(ValueError, OSError):
            resource.setrlimit(which, limits)
            return


def open_files() -> int:
    """How many files this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return FEWEST_FILES if soft == resource.RLIM_INFINITY else soft
