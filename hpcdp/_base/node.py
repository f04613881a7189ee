"""The node executor: calls in child processes of this machine, which are ended, blamed and replaced one by one.

Chosen: an executor of our own, because what a mechanism does to its process has to be its chunk's failure alone. Weighed:
concurrent.futures and loky (one that ends breaks the pool), pebble (starts `multiprocessing` processes, which Dask's daemonic
workers may not have, and notices `os._exit(0)` at a time-out only); none ends what a child started, or hears while Python's lock
is held. The server is started with `subprocess`, has no threads, and forks; this process need not be safe to fork.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any
from weakref import WeakSet

from hpcdp._base._link import Link
from hpcdp._base.asked import is_command
from hpcdp._base.files import umask
from hpcdp._base.raised import describe_raised
from hpcdp._base.signals import how_ended
from hpcdp._base.threads import worker_environment
from hpcdp.errors import HpcdpError

_STARTS, _KILLED = 5, 20  # servers in a row that ended before they did anything: by themselves, and by a signal
_REST = 600.0  # seconds without a call after which a server ends: a driver that was killed leaves it on others' workers
_POLITE = 10.0  # seconds in which a server may end by itself; it kills what is below it for five

# A module, and a function of it that loads kernels: servers have all that tasks need before they fork.
_LOADED = "hpcdp.engine.tasks", "warm"


class ProcessDied(HpcdpError):
    """A call ended its process each time, or was ended for its time or memory."""

    def __init__(
        self,
        how: str,
        risk: str | None = None,
        step: str | None = None,
        limit: float | None = None,
        memory: int | None = None,
    ) -> None:
        super().__init__(f"{risk or step or 'a call'}: the process {how}")
        self.how, self.risk, self.step, self.limit, self.memory = how, risk, step, limit, memory

    def __reduce__(self) -> tuple[type[ProcessDied], tuple[Any, ...]]:
        return type(self), (self.how, self.risk, self.step, self.limit, self.memory)


class _Server:
    """A server process, and our end of its link. What is said to it waits in a queue: it may be saying something itself."""

    def __init__(self) -> None:
        ours, theirs = (_above_streams(end) for end in socket.socketpair())
        with theirs:
            descriptor = theirs.fileno()
            code = f"import sys; sys.path[:] = {_path()!r}; from hpcdp._base._server import main; main({descriptor})"
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", *["-O"] * sys.flags.optimize, "-c", code],
                    env={**os.environ, **worker_environment()},
                    pass_fds=[descriptor],
                    stdin=subprocess.DEVNULL,
                    stdout=2 if _is_open(2) else subprocess.DEVNULL,
                    stderr=None if _is_open(2) else subprocess.DEVNULL,
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self.link = Link(ours)
        _links.add(self.link)
        self._said: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        threading.Thread(target=self._send, name="hpcdp-node-send", daemon=True).start()
        self.say(*_LOADED)

    def say(self, *message: Any) -> None:
        """Send it a message, in its turn; where it is gone, another one will be told."""
        self._said.put(message)

    def _send(self) -> None:
        for message in iter(self._said.get, None):
            with suppress(OSError):
                self.link.send(*message)

    def heard(self) -> Iterator[tuple[Any, ...]]:
        """What it says, until it ends."""
        with suppress(EOFError):
            while True:
                yield self.link.wait()

    def end(self) -> None:
        """Have it kill what is below it, and end."""
        self._said.put(None)
        self.link.end()
        try:
            self.process.wait(_POLITE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_links: WeakSet[Link] = WeakSet()
_spare: list[_Server] = []
_owner = 0


def _take() -> _Server:
    """A server that another executor has left, else a new one."""
    global _owner
    if _owner != os.getpid():  # a fork of the process that started them
        _spare.clear()
        _owner = os.getpid()
        atexit.register(_end_spare)
    with suppress(IndexError):
        while True:
            if (server := _spare.pop()).process.poll() is None:
                return server
            server.end()
    return _Server()


def _close_links() -> None:
    for link in list(_links):
        link.close()


os.register_at_fork(after_in_child=_close_links)  # a fork of this process must not keep its servers alive


def start_early() -> None:
    """Start a server now, while this process does something else: to load what tasks need takes most of a second."""
    if not _spare:
        _spare.append(_take())


def _end_spare() -> None:
    """End servers that do nothing, and have no children; one that was started early may be loading still."""
    while _owner == os.getpid() and _spare:
        server = _spare.pop()
        server.process.kill()
        server.end()


class NodeExecutor(Executor):
    """Calls in up to `size` child processes, one at a time each; other people's code may run there.

    Functions, arguments and results are pickled; results and errors are of types that this process knows. A call that ends its
    process is done again, three times in all, before its future has ProcessDied; what other processes do goes on.

    Args:
        size: processes at most.
        hear: told of news of children, dictionaries (`hpcdp._base.doing`), in a thread.
        memory: bytes that all children together may have of their own; beyond, the largest is ended. None: as many as there are.
        environment: variables that children have besides those of this process.
        module: loaded before children are forked, as that of the functions that will be called.
    """

    def __init__(
        self,
        size: int,
        hear: Callable[[dict[str, Any]], None] | None = None,
        memory: int | None = None,
        environment: Mapping[str, str] | None = None,
        module: str = __name__,
    ) -> None:
        self.size, self.hear, self._module = size, hear, module
        self._memory, self._environment = memory, dict(environment or {})
        self._calls: dict[int, tuple[Future[Any], bytes]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._starts, self._is_closed, self._cleared = 0, False, threading.Event()
        self.is_ready = False
        self._server: _Server | None = None

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """The future of function(*arguments, **named) in a child."""
        return self.submit_pickled(pickle.dumps((function, arguments, named), pickle.HIGHEST_PROTOCOL))

    def submit_pickled(self, data: bytes) -> Future[Any]:
        """The same of a pickle of (function, arguments, named)."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # Dask waits for ever for a call that was cancelled
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the node executor was shut down")
            number = next(self._numbers)
            self._calls[number] = future, data
            if self._server is None:
                self._begin()
            else:
                self._server.say("call", number, data)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all children, and what they started; calls that have not ended fail."""
        if (server := self._close(RuntimeError("the node executor was shut down"))) is None:
            return
        server.say("clear")
        if self.is_ready and self._cleared.wait(_POLITE) and _owner == os.getpid() and not _spare:
            _spare.append(server)
        else:
            server.end()

    def _close(self, error: BaseException) -> _Server | None:
        """Take no more calls; those that have not ended fail so. The server that there was."""
        with self._lock:
            self._is_closed = True
            calls, self._calls = self._calls, {}
            server, self._server = self._server, None
        for future, _ in calls.values():
            future.set_exception(error)
        return server

    def _begin(self) -> None:
        """Start a server, and give it all calls; under the lock."""
        self._starts += 1
        self._server = server = _take()
        main = sys.modules.get("__main__")
        settings = {
            "size": self.size,
            "memory": self._memory,
            "rest": _REST,
            "module": self._module,
            "path": _path(),
            "arguments": list(sys.argv),
            "folder": _folder(),
            "environment": {**os.environ, **worker_environment(), **self._environment},
            "by_command": is_command(),
            "umask": umask(),
            "main": getattr(main, "__file__", None),
        }
        server.say("settings", settings)
        for number, (_, data) in self._calls.items():
            server.say("call", number, data)
        threading.Thread(target=self._listen, args=(server,), name="hpcdp-node", daemon=True).start()

    def _listen(self, server: _Server) -> None:
        """Hear what a server says; where it ends, another one takes its place and gets all calls."""
        try:
            for kind, *values in server.heard():
                self.is_ready = True
                if kind == "cleared":
                    self._cleared.set()
                    return
                getattr(self, f"_on_{kind}")(*values)
            self._replace(server)
        except BaseException as error:  # of who hears news, or a defect: who waits for calls would wait for ever
            own = isinstance(error, HpcdpError)
            self._close(error if own else HpcdpError(f"the node executor ended: {describe_raised(error)}"))
            server.end()

    def _replace(self, server: _Server) -> None:
        """Have another server in the place of one that ended, if there are calls: it may rest."""
        with self._lock:
            if self._is_closed:
                return
            server.end()
            self._server, self.is_ready = None, False
            code = server.process.returncode or 0
            if self._calls and self._starts >= (_STARTS if code >= 0 else _KILLED):
                raise HpcdpError(
                    f"the parent of hpcdp's child processes {how_ended(code)}, {self._starts} times in a row before any call "
                    "was done; does the code that the study names end its parent process?"
                )
            if self._calls:
                self._begin()

    def _on_ready(self) -> None:
        """Its libraries are loaded."""

    def _on_done(self, number: int, data: bytes) -> None:
        self._starts = 0
        if (future := self._pop(number)) is None:
            return
        try:
            is_good, value = pickle.loads(data)
        except Exception as error:
            is_good, value = False, HpcdpError(f"the result of a call cannot be read: {error}")
        if is_good:
            future.set_result(value)
        else:
            future.set_exception(value)

    def _on_died(self, number: int, why: Mapping[str, Any]) -> None:
        self._starts = 0
        if (future := self._pop(number)) is not None:
            future.set_exception(ProcessDied(**why))

    def _on_news(self, news: dict[str, Any]) -> None:
        if self.hear is not None:
            self.hear(news)

    def _pop(self, number: int) -> Future[Any] | None:
        with self._lock:
            return self._calls.pop(number, (None,))[0]


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "/"


def _path() -> list[str]:
    """Where modules are looked for, without what Python ignores there."""
    return [entry for entry in sys.path if isinstance(entry, str)]


def _above_streams(end: socket.socket) -> socket.socket:
    """The same connection under a descriptor that is none of the standard streams, which may be closed."""
    with end:
        return socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
