"""What a process has once and any code may change: it stays the driver's, whatever other people's code does here."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)


def _folder() -> str | None:
    with suppress(OSError):  # it may have been removed; nobody can go back to it then
        return os.getcwd()
    return None


def _go_to(folder: str | None) -> None:
    if folder is not None:
        with suppress(OSError):
            os.chdir(folder)


def _set_environment(wanted: dict[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in wanted.items() if os.environ.get(name) != value})


def _set_filters(wanted: list[Any]) -> None:
    if warnings.filters != wanted:
        warnings.resetwarnings()  # which has all modules look again at what they may warn of
        warnings.filters[:] = wanted  # type: ignore[index]


def _set_streams(wanted: tuple[Any, Any, Any]) -> None:
    sys.stdin, sys.stdout, sys.stderr = wanted


def _mask() -> int:
    mask = os.umask(0o077)  # a mask cannot be read without setting it
    os.umask(mask)
    return mask


Settings = tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...]
"""How each is read, and put back."""

_NEEDED: Settings = (
    (lambda: (sys.stdin, sys.stdout, sys.stderr), _set_streams),
    (_folder, _go_to),
    (_mask, os.umask),
)
"""Without which the driver could not go on."""

_ALL: Settings = (
    *_NEEDED,
    (lambda: dict(os.environ), _set_environment),
    (lambda: list(warnings.filters), _set_filters),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (np.get_printoptions, lambda options: np.set_printoptions(**options)),  # a thread's own, in newer versions
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
)


@contextmanager
def kept() -> Iterator[None]:
    """Other people's code runs within, as in trial draws; afterwards the driver has what it needs.

    That are the current folder, the streams, the mask of new files, and how the signals are handled that end a run or tell of
    a child's end. All else stays changed, since a module may have set it for its functions when it was imported.
    """
    ours, handlers = _get(_NEEDED), {number: signal.getsignal(number) for number in _HANDLED}
    try:
        yield
    finally:
        _put(_NEEDED, ours)
        if threading.current_thread() is threading.main_thread():  # no other can have changed them
            for number, handler in handlers.items():
                if handler is not None and signal.getsignal(number) is not handler:  # None: of a library in C
                    signal.signal(number, handler)


class GlobalState:
    """The state of code that shares this process: it finds what it left, as in a process of its own, and we what we left.

    Its random numbers begin anew, as a worker's do.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ours: list[Any] | None = None  # while its code runs
        self._theirs: list[Any] | None = None

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Its code runs within, in one thread at a time."""
        with self._lock:
            self._ours = _get()
            if self._theirs is None:
                random.seed()
                np.random.seed()  # noqa: NPY002
            else:
                _put(_ALL, self._theirs)
        try:
            yield
        finally:
            with self._lock:
                if self._ours is not None:
                    self._theirs = _get()
            self.put_back()

    def put_back(self) -> None:
        """Have our own state again, now, should its code not have returned."""
        with self._lock:
            if self._ours is not None:
                _put(_ALL, self._ours)
                self._ours = None


def _get(settings: Settings = _ALL) -> list[Any]:
    return [get() for get, _ in settings]


def _put(settings: Settings, values: list[Any]) -> None:
    for (_, put), value in zip(settings, values, strict=True):
        put(value)
