"""This machine without a scheduler: calls one after another, in this process or in one worker process."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from hpcdp._base.signals import deferred, ignored
from hpcdp._base.threads import worker_threads
from hpcdp.clusters.place import Hear, Place

_PATIENCE = 120.0  # seconds; a process of this machine starts within a few
_TICK = 0.25  # seconds between looks at what is no answer

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
