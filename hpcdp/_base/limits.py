"""Limits of a process that other people's code may lower, and below which nobody can open or write files."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from hpcdp.errors import StudyError

_KEPT = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)
_BLAMED = {
    resource.RLIMIT_NOFILE: ("open files (RLIMIT_NOFILE)", errno.EMFILE),
    resource.RLIMIT_FSIZE: ("the bytes of a file (RLIMIT_FSIZE)", errno.EFBIG),
    resource.RLIMIT_AS: ("the bytes of its addresses (RLIMIT_AS)", errno.ENOMEM),
    resource.RLIMIT_DATA: ("the bytes of its data (RLIMIT_DATA)", errno.ENOMEM),
}
"""Limits whose lowering is told of, in words, and the error that a process meets beyond them."""

FEWEST_FILES = 256
"""Open files with which a run surely gets by."""
SPARE_FILES = 8
"""Those that a process with a scheduler can open besides, or its run ends: the commands that end jobs need pipes."""

_lowered: dict[int, tuple[str, int]] = {}
"""Limits that other people's code lowered in this process and that stayed so: whose code, and what the limit was."""


@contextmanager
def kept_limits(named: str) -> Iterator[None]:
    """Other people's code runs within; afterwards limits of files are what they were, as far as the system allows.

    named: that code, in words, for `describe_lowered`.
    """
    before = {which: resource.getrlimit(which) for which in _BLAMED}
    try:
        yield
    finally:
        for which, wanted in before.items():
            if (found := resource.getrlimit(which)) == wanted:
                continue
            if which in _KEPT:
                _put_back(which, wanted, found[1])
            if _size(resource.getrlimit(which)[0]) < _size(wanted[0]):
                _lowered.setdefault(which, (named, wanted[0]))


def describe_lowered(code: int | None) -> str:
    """Whose code lowered the limit that this error number tells of, as the beginning of a message; empty where nobody did."""
    for which, (words, tells) in _BLAMED.items():
        now = resource.getrlimit(which)[0]
        if tells == code and which in _lowered and _size(now) < _size(_lowered[which][1]):
            named, before = _lowered[which]
            return f"{named} lowered the limit of {words} of its process from {_spell(before)} to {_spell(now)}; "
    return ""


def _size(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else limit


def _spell(limit: int) -> str:
    return "none" if limit == resource.RLIM_INFINITY else f"{limit:,}"


def refuse_few_files(more: int, what: str) -> None:
    """StudyError where this process may not open so many files beside those that it has open. what: needs them, in words.

    A soft limit that is too low becomes the hard one; one that is enough stays, as workers inherit it.
    """
    open_now = sum(int(name) < open_files() for name in os.listdir("/dev/fd")) - 1  # but for the one that lists them
    if open_files() < open_now + more:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        _put_back(resource.RLIMIT_NOFILE, (hard, hard), hard)
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


def _put_back(which: int, wanted: tuple[int, int], hard: int) -> None:
    for limits in (wanted, (wanted[0], hard), (hard, hard)):  # nobody but root raises a hard one
        with suppress(ValueError, OSError):
            resource.setrlimit(which, limits)
            return


def open_files() -> int:
    """How many files this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return FEWEST_FILES if soft == resource.RLIM_INFINITY else soft
