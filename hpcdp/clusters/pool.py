"""Worker processes of this machine without a scheduler: each at the other end of a connection that nobody else has."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from hpcdp._base.signals import deferred, ignored
from hpcdp.clusters._messages import Heard
from hpcdp.clusters.place import Hear, Place

_PATIENCE = 120.0  # seconds; a process of this machine starts within a few
_POLITE = 1.0  # seconds in which a worker without a connection may end by itself

RETURNED, RAISED, DIED, UNBEGUN = "returned", "raised", "died", "unbegun"
"""How a call ended; the last: its worker ended before it began."""


@dataclass(eq=False)
class _Worker:
    """handle: of its process, -1 where the system has no such thing. call: what it does now."""

    connection: Connection
    handle: int
    heard: Heard
    call: object | None = None
    has_begun: bool = False


class Pool(Place):
    """Calls in worker processes, which are replaced when they end. size: so many.

    channel: where a new worker says how it is reached. drawing: see `Place`.
    """

    patience, blames_exactly, fleet = _PATIENCE, True, None
    known_dashboard = None

    def __init__(self, size: int, channel: socket.socket, drawing: Callable[[], list[dict[str, Any]]]) -> None:
        self.size, self.drawing, self.known_threads = size, drawing, 0
        self._channel = channel
        self._workers: list[_Worker] = []
        self._hear: Hear | None = None

    def threads(self) -> int:
        """Workers that are there."""
        return len(self._workers)

    def begin(self, call: object, function: Callable[..., Any], arguments: Sequence[Any]) -> bool:
        """Have a worker do it that does nothing; False where there is none."""
        for worker in [one for one in self._workers if one.call is None]:
            try:
                worker.connection.send((function, arguments))
            except ConnectionError:
                self._lose(worker)
                continue
            worker.call, worker.has_begun = call, False
            return True
        return False

    def hear(self, seconds: float) -> list[tuple[object, str, Any]]:
        """Calls that ended, how, and what they returned or raised; waits so long for workers to say anything."""
        found: list[tuple[object, str, Any]] = []
        by_connection = {worker.connection: worker for worker in self._workers}
        for ready in wait([self._channel, *by_connection], seconds):
            worker = by_connection.get(ready)  # type: ignore[call-overload]
            if worker is None:
                self._connect()
                continue
            try:
                messages = worker.heard.read()
            except (EOFError, OSError):  # also in the middle of a message
                self._lose(worker)
                if worker.call is not None:
                    found.append((worker.call, DIED if worker.has_begun else UNBEGUN, None))
                continue
            for what, value in messages:
                if what == "begun":
                    worker.has_begun = True
                elif what in (RETURNED, RAISED):
                    found.append((worker.call, what, value))
                    worker.call = None
                elif self._hear is not None:
                    self._hear((0.0, value))
        return found

    def _connect(self) -> None:
        _, descriptors, _, _ = socket.recv_fds(self._channel, 1, 2)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if descriptors:  # none where this process may open no more
            self._workers.append(_Worker(Connection(descriptors[0]), (*descriptors, -1)[1], Heard(descriptors[0])))
            self.known_threads = len(self._workers)

    def _lose(self, worker: _Worker) -> None:
        """End a worker without a connection, which may live."""
        self._workers.remove(worker)
        self.known_threads = len(self._workers)
        worker.connection.close()
        if worker.handle >= 0:
            with suppress(OSError):
                if not select.select([worker.handle], [], [], _POLITE)[0]:
                    signal.pidfd_send_signal(worker.handle, signal.SIGKILL)
            os.close(worker.handle)

    def leave(self) -> None:
        """Let the workers go."""
        for worker in self._workers:
            worker.connection.close()
            if worker.handle >= 0:
                os.close(worker.handle)
        self._workers = []

    @contextmanager
    def listening(self, topic: str, hear: Hear) -> Iterator[None]:
        """Hear within what workers tell."""
        self._hear = hear
        try:
            yield
        finally:
            self._hear = None


@contextmanager
def open_pool(size: int, modules: tuple[str, ...] = ()) -> Iterator[Pool]:
    """So many worker processes of one thread each. modules: what calls need, loaded before they are forked."""
    from hpcdp.clusters._processes import Processes, refuse_few_files_for
    from hpcdp.clusters._serving import CallServing

    refuse_few_files_for(size)
    ending = ExitStack()
    try:
        with deferred():
            processes = Processes(size, CallServing("worker", modules))
            ending.callback(processes.end)
            pool = Pool(size, processes.channel, processes.drawing)
            processes.start()
            ending.callback(pool.leave)  # which workers take for their end
            ending.callback(processes.stop)
        yield pool
    finally:
        with ignored():
            ending.close()
