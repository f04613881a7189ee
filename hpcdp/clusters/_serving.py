"""What a worker process of this machine does: it serves a scheduler, or one caller, until either of them ends."""

from __future__ import annotations

import errno
import logging
import multiprocessing.spawn
import os
import pickle
import select
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, Self

import numpy as np

from hpcdp._base.parent import no_copy
from hpcdp._base.prints import end_results
from hpcdp._base.raised import describe_raised
from hpcdp._base.slow_draws import send_by
from hpcdp.clusters._messages import say
from hpcdp.errors import DONE, MechanismError

_LOOK = 500  # milliseconds between looks at the thread that answers
_POLITE = 5.0  # seconds in which a call may end whose caller is gone


@dataclass(frozen=True)
class Serving(ABC):
    """name, number: of this worker; they differ, because who is served may not have missed the last one yet.
    modules: loaded once, before workers are forked. notes: a file that is the driver's memory, where workers note what they
    draw. channel: a descriptor, on which a worker says how it is reached where nobody else does. left: one on which it says
    that it is not to be replaced; its exit code is the mechanism's to choose.
    """

    name: str
    modules: tuple[str, ...] = ()
    number: int = 0
    notes: str = ""
    channel: int = -1
    left: int = -1

    def named(self, name: str) -> Self:
        """For the workers of one keeper."""
        return replace(self, name=f"{self.name}-{name}")

    def again(self) -> Self:
        """For the next worker of the same keeper."""
        return replace(self, number=self.number + 1)

    def serve(self, preparation: dict[str, Any]) -> None:
        """Run a worker in this process until it or whom it serves ends. preparation: for `multiprocessing.spawn.prepare`."""
        np.random.seed()  # noqa: NPY002  # else all workers would go on with the state that they were forked with
        end_results()  # standard output is the driver's: what is printed here goes to standard error
        multiprocessing.spawn.prepare(preparation)
        with self._ending_with_files():
            self._run()

    @contextmanager
    def _ending_with_files(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # as where a mechanism closed all files; Python's own end would wait for its threads
            with suppress(OSError):
                print(f"hpcdp: a worker process ended: {error.strerror or error}", file=sys.stderr, flush=True)
            os._exit(1)

    @abstractmethod
    def _run(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class DaskServing(Serving):
    """Serves a scheduler. config: Dask's, as the driver has it. worker: keyword arguments of Dask's Worker.

    They hold the run's certificate and key: they go through a pipe, and into no file, argument or environment. leaves: is
    not replaced once it has left the scheduler, or found none.
    """

    config: dict[str, Any]
    worker: dict[str, Any]
    leaves: bool = False

    def _run(self) -> None:
        import asyncio

        import dask

        from hpcdp.clusters.scheduler import QuietWorker

        has_begun = False

        async def run() -> None:
            nonlocal has_begun
            async with QuietWorker(**{**self.worker, "name": f"{self.name}-{self.number}"}) as worker:
                has_begun = True
                await worker.finished()

        dask.config.set(self.config)
        if not self.leaves:  # whose log is read, where something is wrong
            for library in ("distributed", "tornado.application", "asyncio"):
                logging.getLogger(library).setLevel(logging.CRITICAL)
        try:
            asyncio.run(run())
        except Exception as error:
            if has_begun or not self.leaves:
                raise
            reason = describe_raised(error.__cause__ or error)
            print(f"hpcdp: a worker found no scheduler, or could not start: {reason}", file=sys.stderr, flush=True)
        if self.leaves:
            os.write(self.left, b"l")
            os._exit(DONE)


@dataclass(frozen=True)
class CallServing(Serving):
    """Serves one caller, with whom it has a connection: calls come, and what they return or raise goes back.

    They run beside the main thread, as Dask's do: what may be done there alone, as setting signals, fails in all places.
    """

    def _run(self) -> None:
        ours, theirs = socket.socketpair()
        with socket.socket(fileno=self.channel) as channel, theirs, _handle() as handle:
            try:
                socket.send_fds(channel, [b"w"], [theirs.fileno(), *handle])
            except ConnectionError:  # the caller is gone
                return
        caller = Connection(ours.detach())
        line = select.poll()
        line.register(caller, 0)  # hears of its end alone, also in the middle of a call
        thread = threading.Thread(target=self._answer_all, args=(caller,), name="hpcdp-calls", daemon=True)
        thread.start()
        while thread.is_alive():
            for _, event in line.poll(_LOOK):
                if event & select.POLLNVAL:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                thread.join(_POLITE)
                if thread.is_alive():
                    os._exit(1)

    def _answer_all(self, caller: Connection) -> None:
        lock = threading.Lock()

        def tell(message: bytes) -> None:
            with lock:
                say(caller.fileno(), message)

        with self._ending_with_files(), suppress(ConnectionError):  # the caller is gone
            self._converse(caller, tell)

    def _converse(self, caller: Connection, tell: Callable[[bytes], None]) -> None:
        send_by(lambda message: tell(pickle.dumps(("event", message))))
        while True:
            try:
                function, arguments = caller.recv()
            except EOFError:
                return
            tell(pickle.dumps(("begun", None)))
            tell(_answer(function, arguments))


@contextmanager
def _handle() -> Iterator[list[int]]:
    """Of this process, for who should end it, and no other that gets its number; empty where there is no such thing."""
    if not hasattr(os, "pidfd_open"):
        yield []
        return
    handle = os.pidfd_open(os.getpid())
    try:
        yield [handle]
    finally:
        os.close(handle)


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """What a call returns or raises, whatever that is, as the caller reads it."""
    try:
        with no_copy():
            return pickle.dumps(("returned", function(*arguments)))
    except BaseException as error:  # other people's code raises what is no Exception too
        return pickle.dumps(("raised", carried(error)))


def carried(error: BaseException) -> Exception:
    """The error as the caller can raise it; another one that tells of it where it cannot."""
    with suppress(Exception):
        if isinstance(error, Exception) and type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    return MechanismError(f"a task raised {describe_raised(error)}")
