"""Who waits while kernels are compiled is told once, where the command asked for it; libraries say nothing."""

from __future__ import annotations

import mmap
from collections.abc import Callable

WORDS = "compiling kernels that this machine has not used before, which takes seconds to a minute"
UNKEPT = "compiling kernels in each process, each time: no folder can be written for them; NUMBA_CACHE_DIR may name one"
words = WORDS  # the other once no folder was found

_told = mmap.mmap(-1, 1)  # which forks share
_tell: list[Callable[[], None]] = []


def tell_by(tell: Callable[[], None]) -> None:
    """What is called when this process, or one that is forked from it, is the first to find a kernel that nobody has compiled."""
    _tell[:], _told[0] = [tell], 0


def begins() -> None:
    """A kernel is about to be compiled."""
    for tell in _tell:
        if is_news():
            tell()


def is_news() -> bool:
    """Whether somebody is to be told who was not told yet; whoever asks tells it."""
    is_first, _told[0] = bool(_tell) and not _told[0], 1
    return is_first
