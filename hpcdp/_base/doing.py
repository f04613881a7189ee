"""What a child process does, told to the process that started it: draws that take long, code that may end it, kernels, types.

A process that holds Python's lock for long cannot tell of itself, and one that ended cannot either: each step is announced
before it begins. Outside a child process (`hpcdp._base.node`) nobody is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from hpcdp._base import compiling

LONG = 10.0
"""Seconds that a draw may take before it is named, unless draws are expected to take long."""

_send: Callable[..., None] | None = None
_steps: list[tuple[str, float | None]] = []
_risks: list[tuple[str]] = []
_first_type: list[tuple[str, str]] = []  # of the numbers that this process drew first, and where


def tell_by(send: Callable[..., None]) -> None:
    """From now on this process is a child that tells its steps so."""
    global _send
    _send = send


def drawing(describe: Callable[[], str], limit: float | None = None) -> AbstractContextManager[None]:
    """Draw a chunk, or ask a user's own loss, within. limit: seconds after which the process is ended."""
    return _announced("step", _steps, lambda: (describe(), limit))


def at_risk(what: str) -> AbstractContextManager[None]:
    """Other people's code runs within: should it end the process, it was `what`."""
    return _announced("risk", _risks, lambda: (what,))


def step() -> str | None:
    """What this process draws now; None where nothing is announced."""
    return _steps[-1][0] if _steps else None


@contextmanager
def _announced(kind: str, stack: list[Any], describe: Callable[[], tuple[Any, ...]]) -> Iterator[None]:
    """Told of within, and at the end what it lies in."""
    if _send is None:
        yield
        return
    stack.append(described := describe())
    _send(kind, *described)
    try:
        yield
    finally:
        stack.pop()
        _send(kind, *(stack[-1] if stack else [None] * len(described)))


def tell(**news: Any) -> None:
    """Tell the driver something."""
    if _send is not None:
        _send("news", news)


def tell_type(name: str) -> None:
    """Tell the driver if the numbers of this chunk are of another type than the first that this process drew."""
    if _send is None or not _steps:
        return
    where = _steps[-1][0]
    _first_type[:] = _first_type or [(name, where)]
    first, there = _first_type[0]
    if name != first:
        tell(types=f"{where} holds {name}, {there} {first}")


def still(what: str) -> str:
    """What goes on: a draw, or a step of a user's own loss."""
    return "still at work" if what.startswith("estimate.loss") else "still drawing"


def patient(note: Callable[[str], None]) -> Callable[[dict[str, Any]], None]:
    """Hears news, and notes draws that take long, and again whenever their time has doubled."""
    due: dict[str, float] = {}

    def hear(news: dict[str, Any]) -> None:
        if "compiling" in news:
            if compiling.is_news():
                note(compiling.words)
        elif "note" in news:
            note(news["note"])
        elif "seconds" in news and news["seconds"] >= due.get(news["key"], LONG):
            due[news["key"]] = 2 * news["seconds"]
            note(f"{still(news['what'])} after {news['seconds']:.0f} s: {news['what']}")

    return hear
