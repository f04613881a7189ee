"""Interruptions at moments when an exception would leave processes behind: they wait, or are ignored."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

_SAME = 1.0  # seconds within which a signal is the same one


def how_ended(code: int) -> str:
    """How a process ended, by its exit code as `subprocess` has it; some signals have no name."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = f"signal {-code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
    return f"was ended by {name}"


class Once:
    """A handler, deaf for a moment after each call: what is sent to a whole group comes from the parent too."""

    def __init__(self, handler: Callable[[int, Any], Any]) -> None:
        self._handler, self._last = handler, float("-inf")

    def __call__(self, number: int, frame: Any) -> None:
        if time.monotonic() - self._last > _SAME:
            self._last = time.monotonic()
            self._handler(number, frame)

    @property
    def was_called(self) -> bool:
        """Whether a signal came."""
        return self._last > float("-inf")


def may_be_interrupted() -> bool:
    """Whether a KeyboardInterrupt may be a signal's: one came, or is handled by what does not tell."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    return any(
        handler.was_called if isinstance(handler, Once) else handler is None or callable(handler)
        for handler in handlers
    )


@contextmanager
def as_interruptions() -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM raise KeyboardInterrupt also where they come into a compiled kernel, which says SystemError."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise


@contextmanager
def _handled(choose: Callable[[Any], Any]) -> Iterator[None]:
    """Within, SIGINT and SIGTERM have other handlers: what `choose` makes of theirs, None to leave one; then their own again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, handler in before.items():
            if (chosen := choose(handler)) is not None:
                signal.signal(number, chosen)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # of a library in C
                signal.signal(number, handler)


@contextmanager
def postponed() -> Iterator[None]:
    """C calls Python back within: Ctrl-C and SIGTERM come when it ends. Handlers, no mask, which other threads would not obey."""
    came: list[int] = []
    try:
        with _handled(lambda handler: (lambda number, _: came.append(number)) if callable(handler) else None):
            yield
    finally:
        for each in came:
            signal.raise_signal(each)


def kept_handlers() -> AbstractContextManager[None]:
    """A library is imported within that handles SIGINT or SIGTERM itself: afterwards they are handled as before."""
    return _handled(lambda _: None)


def ignored() -> AbstractContextManager[None]:
    """End processes within: a second Ctrl-C or SIGTERM changes nothing."""
    return _handled(lambda _: signal.SIG_IGN)
