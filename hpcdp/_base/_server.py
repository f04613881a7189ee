"""The server of a node executor: it has loaded what tasks need, forks children, gives them calls, and looks after them.

A child does one call after another. Whatever it started ends with it, in whatever session it is: orphans become children of
the server (PR_SET_CHILD_SUBREAPER), which kills them. Should the server end, its children are killed (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pickle
import random
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass
from select import POLLIN, poll
from typing import Any, NoReturn

import numpy as np
import psutil

from hpcdp._base import compiling, doing
from hpcdp._base._link import Link
from hpcdp._base.asked import ask_as
from hpcdp._base.raised import carried
from hpcdp._base.signals import how_ended

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36  # linux/prctl.h
_LONGEST = 5.0  # seconds in which killed processes are waited for; those of another user may not be killed


def _adopt_orphans(name: str) -> None:
    """From now on whatever is left below this process becomes its child. name: what `ps -e` calls it, up to 15 characters."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_NAME, name.encode())


def _prctl(option: int, value: Any) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _kill_below(spared: Container[int] = ()) -> None:
    """Kill all children but some, and theirs as they become ours."""
    end = time.monotonic() + _LONGEST
    while (
        below := [process.pid for process in psutil.Process().children() if process.pid not in spared]
    ) and time.monotonic() < end:
        for child in below:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
        for child in below:
            with suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)


_TRIES = 3  # that a call may end its process
_LOOK = 0.5  # seconds between looks at draws, deadlines and memory
_NEWS = 5.0  # seconds after which a draw is told of, and then again
_ENDING = 1.0  # seconds in which a child that closed all of its files ends by itself
_TAKEN = 10.0  # seconds in which a child takes a call; one that is stopped must not stop the server
_AGAIN = 0.25  # seconds after a fork that failed: what cannot start must not keep a core busy


@dataclass(eq=False)
class _Call:
    """deaths: how often it ended its process."""

    number: int
    data: bytes
    deaths: int = 0


@dataclass(eq=False)
class _Child:
    """pid, link: of the process. call: None while it waits. begin, told: of its step; when the driver was told last."""

    pid: int
    link: Link
    notice: doing.Notice
    call: _Call | None = None
    begin: float = 0.0
    told: float = 0.0

    @property
    def key(self) -> str:
        """What tells this step from all others."""
        return f"{socket.gethostname()}-{self.pid}-{self.begin:.3f}"

    def close(self) -> None:
        """Give up in this process what both share."""
        self.link.close()
        self.notice.close()


class Server:
    """Serves one executor, at the other end of a link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._children: dict[int, _Child] = {}  # by the descriptor of their links
        self._calls: deque[_Call] = deque()
        self._settings: dict[str, Any] = {}
        self._looked = self._failed = float("-inf")
        self._called = time.monotonic()  # when there was a call last
        self._poll = poll()
        self._poll.register(link.fileno(), POLLIN)

    def serve(self) -> None:
        """Do what the executor says, until it is gone."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where the executor's process ignores it, nobody could be blamed
        while True:
            for kind, *values in self._link.read():
                getattr(self, f"_on_{kind}")(*values)
            self._deal()
            ready = {descriptor for descriptor, _ in self._poll.poll(1000 * (_AGAIN if self._calls else _LOOK))}
            for descriptor in ready & self._children.keys():
                if not self._hear(child := self._children[descriptor]):
                    self._cut_off(child)
            self._reap()
            if time.monotonic() - self._looked > _LOOK:
                self._look()
            if time.monotonic() - self._called > self._settings.get("rest", float("inf")):
                return

    def _on_settings(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        sys.path[:] = settings["path"]
        importlib.import_module(settings["module"])
        self._link.send("ready")

    def _on_call(self, number: int, data: bytes) -> None:
        self._calls.append(_Call(number, data))

    def _on_clear(self) -> None:
        """Be as new: for the next executor."""
        self._calls.clear()
        for child in list(self._children.values()):
            child.call = None
            self._lose(child)
        _kill_below()
        self._link.send("cleared")

    def _deal(self) -> None:
        """Give each call to a child that does nothing."""
        while self._calls:
            child = (
                next((candidate for candidate in self._children.values() if candidate.call is None), None)
                or self._fork()
            )
            if child is None:
                return
            child.call = self._calls.popleft()
            try:
                child.link.send("call", child.call.data)
            except OSError:  # it had ended before the call began, or is stopped
                self._calls.appendleft(child.call)
                child.call = None
                self._lose(child)

    def _fork(self) -> _Child | None:
        if len(self._children) >= self._settings["size"] or time.monotonic() - self._failed < _AGAIN:
            return None
        ours, theirs = socket.socketpair()
        ours.settimeout(_TAKEN)
        server = os.getpid()
        try:
            notice = doing.Notice()
            pid = os.fork()
        except OSError:  # no process or memory is left at the moment
            self._failed = time.monotonic()
            ours.close()
            theirs.close()
            return None
        if pid == 0:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it is killed when the server ends
            if os.getppid() != server:
                os._exit(1)
            for other in self._children.values():
                other.close()
            self._link.close()
            ours.close()
            _work(Link(theirs), notice, self._settings)
        theirs.close()
        child = _Child(pid, Link(ours), notice)
        self._children[child.link.fileno()] = child
        self._poll.register(child.link.fileno(), POLLIN)
        return child

    def _hear(self, child: _Child) -> bool:
        """Whether it may still be heard of."""
        try:
            messages = child.link.read()
        except (EOFError, OSError):
            return False
        for kind, *values in messages:
            if kind == "done":
                call, child.call = child.call, None
                if call is not None:
                    self._link.send("done", call.number, *values)
            else:
                self._link.send("news", *values)
        return True

    def _reap(self) -> None:
        """Bury what has ended; orphans of a child that ended are killed."""
        by_pid = {child.pid: child for child in self._children.values()}
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if (child := by_pid.get(ended[0])) is not None and child.link.fileno() in self._children:
                    with suppress(EOFError, OSError):
                        while child.link.has_words() and self._hear(child):
                            pass
                    self._bury(child, ended[1])

    def _cut_off(self, child: _Child) -> None:
        """End a child that cannot be heard: it is ending, or closed descriptors that it did not open, or wrote to them."""
        end = time.monotonic() + _ENDING
        while time.monotonic() < end:
            with suppress(ChildProcessError):
                if (ended := os.waitpid(child.pid, os.WNOHANG))[0]:
                    self._bury(child, ended[1])
                    return
            time.sleep(0.005)
        self._lose(child, how="closed, or wrote to, file descriptors that it did not open")

    def _lose(self, child: _Child, **why: Any) -> None:
        """End a child, and tell whose call that ends."""
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        status = 0
        with suppress(ChildProcessError):
            status = os.waitpid(child.pid, 0)[1]
        self._bury(child, status, **why)

    def _bury(self, child: _Child, status: int, **why: Any) -> None:
        self._end_step(child)
        step, _, _, risk = child.notice.read() or (None,) * 4
        self._poll.unregister(child.link.fileno())
        del self._children[child.link.fileno()]
        child.close()
        _kill_below({other.pid for other in self._children.values()})
        if (call := child.call) is None:
            return
        call.deaths += 1
        if call.deaths < _TRIES and "limit" not in why:
            self._calls.appendleft(call)
        else:
            self._link.send(
                "died",
                call.number,
                {"how": how_ended(os.waitstatus_to_exitcode(status)), "risk": risk, "step": step, **why},
            )

    def _end_step(self, child: _Child) -> None:
        """Who was told of its step hears that it ended."""
        if child.told:
            self._link.send("news", {"key": child.key, "ended": True})
        child.told = 0.0

    def _look(self) -> None:
        """Tell of draws that take long; end those beyond their limits, and the largest child where memory is short."""
        now = self._looked = time.monotonic()
        if any(child.call is not None for child in self._children.values()):
            self._called = now
        for child in list(self._children.values()):
            if (noted := child.notice.read()) is None:
                continue
            step, limit, begin, _ = noted
            if begin != child.begin:
                self._end_step(child)
                child.begin = begin
            passed = now - begin
            if step is None:
                continue
            if limit is not None and passed > limit:
                self._lose(child, limit=limit)
            elif passed >= _NEWS and now - child.told >= _NEWS:
                child.told = now
                self._link.send("news", {"key": child.key, "what": step, "seconds": passed, "ended": False})
        if self._settings.get("memory"):
            sizes = {child: _bytes_of(child.pid) for child in self._children.values()}
            if sizes and sum(sizes.values()) > self._settings["memory"]:
                largest = max(sizes, key=lambda child: sizes[child])
                self._lose(largest, memory=sizes[largest])


def _bytes_of(pid: int) -> int:
    """Bytes that a process and those below it have of their own."""
    total = 0
    with suppress(psutil.Error):
        top = psutil.Process(pid)
        for process in [top, *top.children(recursive=True)]:
            with suppress(psutil.Error):
                memory = process.memory_info()
                total += memory.rss - getattr(memory, "shared", 0)
    return total


def _work(link: Link, notice: doing.Notice, settings: dict[str, Any]) -> NoReturn:
    """A child: do calls until the server is gone. What is printed goes to standard error: results are the driver's."""
    try:
        os.setpgid(0, 0)
        _adopt_orphans("hpcdp-child")
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides when it ends
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        libc = ctypes.CDLL(None)
        with suppress(ValueError):  # C code prints by lines, as nothing writes its buffer at the end; not so on macOS
            libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)  # _IOLBF
        _prepare(settings)
        doing.tell_by(link.send, link.fileno(), notice)
        compiling.tell_by(lambda: doing.tell(compiling=True))
        while True:
            _, data = link.wait()
            answer = _answer(data)
            with suppress(OSError, ValueError, AttributeError):  # a mechanism may have closed it
                sys.stdout.flush()
            link.send("done", answer)
    except (EOFError, ConnectionError):  # the server is gone
        pass
    except OSError as error:  # as where a mechanism closed all files
        with suppress(OSError):
            print(f"hpcdp: a worker process ended: {error.strerror or error}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def _prepare(settings: dict[str, Any]) -> None:
    """Be as the driver is: folder, import path, environment, arguments, and its main script where a study names that."""
    os.chdir(settings["folder"])
    os.environ.clear()
    os.environ.update(settings["environment"])
    sys.argv[:] = settings["arguments"]
    ask_as(settings["by_command"])
    os.umask(settings["umask"])  # of the driver: this server may be older
    random.seed()
    np.random.seed()  # noqa: NPY002  # else all children would go on with the state that they were forked with
    sys.modules["__main__"].__dict__.update(__file__=settings["main"], __name__="__mp_main__")


def _answer(data: bytes) -> bytes:
    """What a call returns or raises, whatever that is, as the caller reads it."""
    try:
        function, arguments, named = pickle.loads(data)
        return pickle.dumps((True, function(*arguments, **named)), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # other people's code raises what is no Exception too
        return pickle.dumps((False, carried(error)), pickle.HIGHEST_PROTOCOL)


def main(descriptor: int) -> None:
    """Serve the executor at the other end of a descriptor."""
    link = Link(socket.socket(fileno=descriptor))
    _adopt_orphans("hpcdp-server")
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):
        compiling.tell_by(lambda: link.send("news", {"compiling": True}))
        module, warm = link.wait()
        getattr(importlib.import_module(module), warm)()
        gc.freeze()  # what is loaded stays shared with the children
        Server(link).serve()
    _kill_below()
    os._exit(0)
