"""What draws tell the driver while a run goes on; in trial draws by a note.

Draws that take long are named while they do, chunks whose numbers are of another type than others', and that kernels are
compiled. A process that holds Python's lock for long cannot tell of itself: one that is ours from its fork notes what it draws
in memory that it shares with another, which looks at it. Others, such as workers elsewhere, tell it in a thread, over Dask's
events.
"""

from __future__ import annotations

import itertools
import mmap
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from hpcdp._base import compiling

_LOOK = 0.5  # seconds between looks at the draws that run
_REPORT = 5.0  # seconds after which a worker tells of a draw, and then again

LONG = 10.0
"""Seconds that a draw may take before it is named, unless draws are expected to take long."""

Tell = Callable[[float], None]
"""Told for how many seconds a draw has run."""


@dataclass(eq=False)
class _Draw:
    tell: Tell
    next: float
    factor: float
    begin: float = field(default_factory=time.monotonic)


_HEAD = struct.Struct("=dH")  # when a draw began, 0.0 where there is none; bytes of text after it


@dataclass(frozen=True)
class Slot:
    """What one process draws and since when, from `start` on in memory that it shares with another."""

    memory: mmap.mmap
    start: int
    size: ClassVar[int] = 1024

    def write(self, what: str | None) -> None:
        """This is drawn from now on; None: nothing is."""
        _HEAD.pack_into(self.memory, self.start, 0.0, 0)
        if what is not None:
            text = what.encode(errors="replace")[: self.size - _HEAD.size]
            begin = self.start + _HEAD.size
            self.memory[begin : begin + len(text)] = text
            _HEAD.pack_into(self.memory, self.start, time.monotonic(), len(text))

    def read(self) -> dict[str, Any] | None:
        """What is drawn, as a message to the driver; None where nothing is."""
        began, size = _HEAD.unpack_from(self.memory, self.start)
        if not began:
            return None
        begin = self.start + _HEAD.size
        what = self.memory[begin : begin + size].decode(errors="replace")
        return {"key": f"{self.start} {began}", "what": what, "seconds": time.monotonic() - began, "ended": False}


def slots_of(handle: int, count: int) -> list[Slot]:
    """So many slots in a file's memory."""
    memory = mmap.mmap(handle, count * Slot.size)
    return [Slot(memory, number * Slot.size) for number in range(count)]


def note_in(slot: Slot | None) -> None:
    """This process' draws are noted there from now on, at which another process looks."""
    global _slot
    _slot = slot
    if slot is not None:
        slot.write(None)  # a process that died may have left a draw


_slot: Slot | None = None
_running: set[_Draw] = set()
_lock = threading.Lock()
_watcher: threading.Thread | None = None
_numbers = itertools.count()
_types: dict[str, tuple[str, str]] = {}  # by topic: the type of the first numbers that this process drew, and where
_topic: ContextVar[str] = ContextVar("hpcdp_topic", default="")
_what: ContextVar[Callable[[], str] | None] = ContextVar("hpcdp_what", default=None)
_send: ContextVar[Callable[[dict[str, Any]], None] | None] = ContextVar("hpcdp_send", default=None)


@contextmanager
def watched(tell: Tell, first: float, factor: float = 2.0) -> Iterator[None]:
    """Draw within: `tell` is called after `first` seconds, and whenever `factor` times as many have passed, in a thread.

    factor 1: every `first` seconds.
    """
    global _watcher
    draw = _Draw(tell, first, factor)
    with _lock:
        _running.add(draw)
        if _watcher is None or not _watcher.is_alive():
            _watcher = threading.Thread(target=_watch, name="hpcdp-slow", daemon=True)
            _watcher.start()
    try:
        yield
    finally:
        with _lock:
            _running.discard(draw)


def _watch() -> None:
    """Look until nothing has run for a while; the next draw starts another thread."""
    global _watcher
    idle = 0
    while True:
        time.sleep(_LOOK)
        with _lock:
            idle = 0 if _running else idle + 1
            if idle > 20:
                _watcher = None
                return
            due = []
            for draw in _running:
                passed = time.monotonic() - draw.begin
                if passed >= draw.next:
                    draw.next = passed * draw.factor if draw.factor > 1 else passed + _REPORT
                    due.append((draw, passed))
        for draw, passed in due:
            with suppress(Exception):  # whoever is told may be about to end; other draws are looked at all the same
                draw.tell(passed)


def topic_of(root: str, generation: int) -> str:
    """The topic of Dask's events under which workers tell of a run's slow draws."""
    return f"hpcdp-slow {root} {generation}"


@contextmanager
def reporting(root: str, generation: int) -> Iterator[None]:
    """Run a task within: where this is a worker, its slow draws are told to the run's driver, and that it compiles kernels."""
    topic = topic_of(root, generation)
    send = _sender(topic)
    before, topics = _send.set(send), _topic.set(topic)
    try:
        with compiling.sent_by(None if send is None else partial(send, {"compiling": True})):
            yield
    finally:
        _topic.reset(topics)
        _send.reset(before)


def tell_type(name: str) -> None:
    """Tell the driver if the numbers of this chunk are of another type than the first that this process drew in the run."""
    send, describe = _send.get(), _what.get()
    if send is None or describe is None or not _topic.get():
        return
    if _topic.get() not in _types:
        _types[_topic.get()] = name, describe()
    first, where = _types[_topic.get()]
    if name != first:
        send({"types": f"{describe()} holds {name}, {where} {first}"})


def send_by(send: Callable[[dict[str, Any]], None]) -> None:
    """What this process tells the driver goes there from now on, over no scheduler."""
    global _sends
    _sends = send


_sends: Callable[[dict[str, Any]], None] | None = None


@contextmanager
def telling(send: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """What this process draws within is told there, and noted in no memory at which another process looks."""
    global _slot, _sends
    before = _slot, _sends
    _slot, _sends = None, send
    try:
        yield
    finally:
        _slot, _sends = before


def _sender(topic: str) -> Callable[[dict[str, Any]], None] | None:
    if _sends is not None:
        return _sends
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:
        return None
    return lambda message: worker.log_event(topic, message)


def patient(note: Callable[[str], None]) -> Callable[[dict[str, Any]], None]:
    """Hears messages, and notes draws that take long, and again whenever their time has doubled."""
    due: dict[str, float] = {}

    def hear(message: dict[str, Any]) -> None:
        if not message["ended"] and message["seconds"] >= due.get(message["key"], LONG):
            due[message["key"]] = 2 * message["seconds"]
            note(f"{still(message['what'])} after {message['seconds']:.0f} s: {message['what']}")

    return hear


@contextmanager
def noting(note: Callable[[str], None]) -> Iterator[None]:
    """Draw within, in this process: draws that take long are noted, unless another process looks at them."""
    before = _send.set(patient(note))
    try:
        yield
    finally:
        _send.reset(before)


def still(what: str) -> str:
    """What goes on: a draw, or a step of a user's own loss."""
    return "still at work" if what.startswith("estimate.loss") else "still drawing"


def naming(describe: Callable[[], str]) -> AbstractContextManager[None]:
    """Draw one chunk, or ask a user's own loss, within; when it takes long, the driver is told what, and when it ended."""
    if _slot is not None:
        return _in_slot(describe, _slot)
    send = _send.get()
    return nullcontext() if send is None else _naming(describe, send)


@contextmanager
def _in_slot(describe: Callable[[], str], slot: Slot) -> Iterator[None]:
    before = _what.set(describe)
    slot.write(describe())
    try:
        yield
    finally:
        _what.reset(before)
        outer = _what.get()
        slot.write(None if outer is None else outer())


@contextmanager
def _naming(describe: Callable[[], str], send: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    key: list[str] = []
    before = _what.set(describe)

    def tell(seconds: float) -> None:
        if not key:
            key.append(f"{socket.gethostname()}-{os.getpid()}-{next(_numbers)}")
        send({"key": key[0], "what": describe(), "seconds": seconds, "ended": False})

    try:
        with watched(tell, _REPORT, 1.0):
            yield
    finally:
        _what.reset(before)
        if key:
            send({"key": key[0], "ended": True})
