"""This machine without a scheduler: calls one after another, in this process or in one worker process."""

from __future__ import annotations

import os
import queue
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from hpcdp._base.global_state import GlobalState
from hpcdp._base.parent import at_risk
from hpcdp._base.raised import Left, leave
from hpcdp._base.signals import deferred, ignored
from hpcdp._base.slow_draws import telling
from hpcdp._base.threads import worker_threads
from hpcdp.clusters.place import Hear, Place
from hpcdp.errors import FAILED

_PATIENCE = 120.0  # seconds; a process of this machine starts within a few
_TICK = 0.25  # seconds between looks at what is no answer
_POLITE = 1.0  # seconds in which a call in this process may end that nobody waits for

Look = Callable[[], object]
"""Called now and then while a call runs; what it raises ends the wait."""


class EndedError(Exception):
    """The worker process ended during a call."""


class Here(Place):
    """Calls in this process: what they run is hpcdp's own code."""

    is_inside = True
    patience, blames_exactly, fleet = _PATIENCE, True, None
    drawing: Callable[[], list[dict[str, Any]]] | None = None
    known_threads, known_dashboard = None, None

    def threads(self) -> int:
        """One call at a time."""
        return 1

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], look: Look) -> Any:
        """What the function returns or raises; EndedError where its process ended."""
        look()
        return function(*arguments)

    @contextmanager
    def listening(self, topic: str, hear: Hear) -> Iterator[None]:
        """Nothing is told: there are no workers."""
        yield


class Beside(Here):
    """Calls of other people's code in this process, with a global state of its own. named: that code, in words.

    They run in a thread, as on a worker: what may be done in the main thread alone, as setting signals, fails in all places,
    and signals interrupt who waits.
    """

    is_inside = False

    def __init__(self, named: str) -> None:
        self._named, self._state = named, GlobalState()
        self._calls: queue.SimpleQueue[tuple[Callable[..., Any], Sequence[Any]] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._is_waited_for = False
        self._thread = threading.Thread(target=self._answer_all, name="hpcdp-calls", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], look: Look) -> Any:
        """What the function returns or raises."""
        look()
        self._is_waited_for = True
        self._calls.put((function, arguments))
        while True:
            try:
                value, error = self._answers.get(timeout=_TICK)
            except queue.Empty:
                look()
                continue
            self._is_waited_for = False
            if error is not None:
                raise error
            return value

    def _answer_all(self) -> None:
        with suppress(Left), worker_threads(1):  # some of which are this thread's alone
            while (found := self._calls.get()) is not None:
                self._answers.put(self._answer(*found))

    def _answer(self, function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Exception | None]:
        from hpcdp.clusters._serving import carried

        try:
            with at_risk(self._named, FAILED), self._state.inside():
                return function(*arguments), None
        except Left:
            raise
        except BaseException as error:  # other people's code raises what is no Exception too
            return None, carried(error)

    def leave(self) -> None:
        """Let the thread go. A call of a library ends it later, and can commit nothing once the lease is released."""
        self._calls.put(None)
        if self._is_waited_for:
            leave(self._thread)
        self._thread.join(_POLITE)
        self._state.put_back()

    @contextmanager
    def listening(self, topic: str, hear: Hear) -> Iterator[None]:
        """Hear within what calls tell."""
        with telling(lambda message: hear((0.0, message))):
            yield


class Apart(Here):
    """Calls in a worker process, which is replaced when it ends. channel: where a new one says how it is reached."""

    is_inside = False

    def __init__(self, channel: socket.socket, drawing: Callable[[], list[dict[str, Any]]]) -> None:
        self.drawing = drawing
        self._channel = channel
        self._worker: Connection | None = None
        self._handle = -1  # of its process, where the system has such
        self._hear: Hear | None = None

    def threads(self) -> int:
        """1 while there is a worker, 0 while one starts."""
        return int(self._worker is not None)

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], look: Look) -> Any:
        """What the function returns or raises in the worker; EndedError where that ended after it had begun."""
        while True:
            worker = self._connected(look)
            begun = False
            try:
                worker.send((function, arguments))
                while True:
                    while not worker.poll(_TICK):
                        look()
                    what, value = worker.recv()
                    if what == "returned":
                        return value
                    if what == "raised":
                        break
                    if what == "begun":
                        begun = True
                    elif self._hear is not None:
                        self._hear((0.0, value))
            except (EOFError, ConnectionError) as error:
                self.leave(kill=True)
                if begun:
                    raise EndedError from error
                continue
            raise value

    def _connected(self, look: Look) -> Connection:
        while self._worker is None:
            if not select.select([self._channel], [], [], _TICK)[0]:
                look()
                continue
            _, descriptors, _, _ = socket.recv_fds(self._channel, 1, 2)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            if descriptors:  # none where this process may open no more
                self._worker, self._handle = Connection(descriptors[0]), (*descriptors, -1)[1]
        return self._worker

    def leave(self, kill: bool = False) -> None:
        """Let the worker go, if there is one. kill: it may have lost its connection and live."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        if self._handle >= 0:
            with suppress(OSError):
                if kill and not select.select([self._handle], [], [], _TICK * 4)[0]:
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)
            self._handle = -1

    @contextmanager
    def listening(self, topic: str, hear: Hear) -> Iterator[None]:
        """Hear within what the worker tells."""
        self._hear = hear
        try:
            yield
        finally:
            self._hear = None


@contextmanager
def open_inside() -> Iterator[Here]:
    """Calls in this process, with the threads that workers have."""
    with worker_threads(1):
        yield Here()


@contextmanager
def open_beside(named: str) -> Iterator[Here]:
    """Calls of other people's code in this process. named: that code, in words."""
    place = Beside(named)
    try:
        yield place
    finally:
        with ignored():
            place.leave()


@contextmanager
def open_apart(modules: tuple[str, ...] = ()) -> Iterator[Here]:
    """Calls in one worker process of this machine. modules: what they need, loaded before it is forked."""
    from hpcdp.clusters._processes import Processes
    from hpcdp.clusters._serving import CallServing

    ending = ExitStack()
    try:
        with deferred():
            processes = Processes(1, CallServing("worker", modules))
            ending.callback(processes.end)
            place = Apart(processes.channel, processes.drawing)
            processes.start()
            ending.callback(place.leave)  # which a worker takes for its end
            ending.callback(processes.stop)
        yield place
    finally:
        with ignored():
            ending.close()
