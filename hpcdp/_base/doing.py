"""What a child process does, told to the process that started it: draws that take long, code that may end it, kernels, types.

A process that holds Python's lock for long cannot tell of itself, and one that ended cannot either: each step is noted before
it begins, in memory that both share, as thousands of chunks may be drawn a second. Outside a child process
(`hpcdp._base.node`) nobody is told.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from hpcdp._base import compiling

LONG = 10.0
"""Seconds that a draw may take before it is named, unless draws are expected to take long."""

_APART = 5.0  # seconds between notes of slow draws: many may hang at once
_HEARD = 30.0  # seconds after which a draw of which nothing was heard is over
_SHOWN = 10

_HEAD = struct.Struct("=II")  # size and CRC-32 of what follows: what is there in part is not taken for a notice
_ROOM, _LONGEST = 1 << 15, 2000  # bytes of a notice, and characters of each of its two texts

Step = tuple[str | None, float | None, float]
"""What is drawn, or None, the seconds after which the process is ended, and when it began."""

_send: Callable[..., None] | None = None
_descriptor = -1
_notice: Notice | None = None
_steps: list[Step] = [(None, None, 0.0)]  # the last one is what is done now; the first one: nothing
_risks: list[str | None] = [None]
_first_type: list[tuple[str, str]] = []  # of the numbers that this process drew first, and where


class Notice:
    """What a child does, in memory that it shares with its parent, who can read it also when the child has ended."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _ROOM)
        self.write(_steps[0], None)

    def write(self, step: Step, risk: str | None) -> None:
        """Draw, or ask a user's own loss; risk: run other people's code."""
        data = pickle.dumps((*step, risk), pickle.HIGHEST_PROTOCOL)
        self._memory[: _HEAD.size + len(data)] = _HEAD.pack(len(data), zlib.crc32(data)) + data

    def read(self) -> tuple[str | None, float | None, float, str | None] | None:
        """The step and the risk that were written last; None in the middle of writing."""
        size, code = _HEAD.unpack_from(self._memory)
        data = self._memory[_HEAD.size : _HEAD.size + size]
        return pickle.loads(data) if zlib.crc32(data) == code else None

    def close(self) -> None:
        """Give the memory up in this process."""
        self._memory.close()


def tell_by(send: Callable[..., None], descriptor: int, notice: Notice) -> None:
    """From now on this process is a child that tells news, over this descriptor, and what it does, so."""
    global _send, _descriptor, _notice
    _send, _descriptor, _notice = send, descriptor, notice


def drawing(describe: Callable[[], str], limit: float | None = None) -> AbstractContextManager[None]:
    """Draw a chunk, or ask a user's own loss, within. limit: seconds after which the process is ended."""
    return _announced(_steps, lambda: (describe()[:_LONGEST], limit, time.monotonic()))


def at_risk(what: str) -> AbstractContextManager[None]:
    """Other people's code runs within: should it end the process, it was `what`."""
    return _announced(_risks, lambda: what[:_LONGEST])


def step() -> str | None:
    """What this process draws now; None where nothing is announced."""
    return _steps[-1][0]


@contextmanager
def _announced(stack: list[Any], describe: Callable[[], Any]) -> Iterator[None]:
    """Noted within, and at the end what it lies in."""
    if _notice is None:
        yield
        return
    stack.append(describe())
    _notice.write(_steps[-1], _risks[-1])
    try:
        yield
    finally:
        os.fstat(_descriptor)  # who closed it is to blame for how this process ends
        stack.pop()
        _notice.write(_steps[-1], _risks[-1])


def tell(**news: Any) -> None:
    """Tell the driver something."""
    if _send is not None:
        _send("news", news)


def tell_type(name: str) -> None:
    """Tell the driver if the numbers of this chunk are of another type than the first that this process drew."""
    if _send is None or (where := step()) is None:
        return
    _first_type[:] = _first_type or [(name, where)]
    first, there = _first_type[0]
    if name != first:
        tell(types=f"{where} holds {name}, {there} {first}")


def still(what: str) -> str:
    """What goes on: a draw, or a step of a user's own loss."""
    return "still at work" if what.startswith("estimate.loss") else "still drawing"


@dataclass(eq=False)
class _Slow:
    """A draw that takes long. next: seconds of it after which it is named (again). heard: when it was last told of."""

    what: str
    next: float
    seconds: float = 0.0
    heard: float = 0.0


class Listener:
    """Hears news of children, and notes draws that take longer than `patience`, and again whenever their time has doubled."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.patience, self._note, self._lock = LONG, note, threading.Lock()
        self._slow: dict[str, _Slow] = {}
        self._types_differ, self._last_named = False, float("-inf")

    def hear(self, news: dict[str, Any]) -> None:
        """Note what is worth it; types that differ once."""
        if "compiling" in news:
            if compiling.is_news():
                self._note(compiling.words)
        elif "note" in news:
            self._note(news["note"])
        elif "types" in news:
            if not self._types_differ:
                self._types_differ = True
                self._note(
                    f"warning: types of outputs differ: {news['types']}; each output counts as the number that it is"
                )
        else:
            self._hear_draw(news)

    def _hear_draw(self, news: dict[str, Any]) -> None:
        now = time.monotonic()
        with self._lock:
            if news["ended"]:
                self._slow.pop(news["key"], None)
                return
            slow = self._slow.setdefault(news["key"], _Slow(news["what"], self.patience))
            slow.seconds, slow.heard = news["seconds"], now
            if slow.seconds < slow.next or now - self._last_named < _APART:
                return
            slow.next, self._last_named = 2 * slow.seconds, now
            others = len(self._still()) - 1
        more = f" (and {others} more)" if others else ""
        self._note(f"{still(slow.what)} after {slow.seconds:.0f} s: {slow.what}{more}")

    def _still(self) -> list[_Slow]:
        """Draws that take longer than is to be expected; of a worker that died nothing is heard any more."""
        fresh = time.monotonic() - _HEARD
        return [slow for slow in self._slow.values() if slow.seconds >= self.patience and slow.heard > fresh]

    def slow(self) -> list[tuple[str, float]]:
        """What takes long now, and its seconds so far."""
        with self._lock:
            return [(slow.what, slow.seconds) for slow in self._still()[:_SHOWN]]
