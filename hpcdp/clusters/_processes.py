"""Worker processes of this machine, forked from one nursery, which is replaced here should it end."""

from __future__ import annotations

import atexit
import multiprocessing.spawn
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from hpcdp._base.below import Child, die_with
from hpcdp._base.descriptors import hold, let_go, lost
from hpcdp._base.limits import SPARE_FILES, refuse_few_files
from hpcdp._base.slow_draws import Slot, slots_of
from hpcdp._base.threads import worker_environment
from hpcdp.clusters._serving import Serving
from hpcdp.mechanisms.user_code import has_imported, names_main

_LOOK = 0.1  # seconds between looks at the nursery
_AGAIN = 1.0  # seconds from one start to the next: what ends as it starts must not keep a core busy
_POLITE = 4.0  # seconds in which workers that were told to leave may do so
_LONGEST = 20.0  # seconds that a nursery may take to end its keepers; it kills those that take ten itself


Channel = tuple[socket.socket, socket.socket]
"""Our end and the workers', on which each says how it is reached."""

_forked: tuple[Child, Channel] | None = None


def fork_nursery() -> None:
    """Fork the nursery now, before anybody else's code runs here and before there are threads.

    Only in a process whose environment is what workers get; else, and where it is too late, one is started when needed.
    """
    global _forked
    if _forked is not None or worker_environment() or has_imported() or _has_threads():
        return
    read, write = os.pipe()
    channel = _make_channel()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(read)
        os.close(write)
        return
    if pid == 0:
        channel[0].close()
        _become_nursery(parent, read, write)
    os.close(read)
    _forked = Child(pid, write), channel
    hold(*_descriptors(_forked))
    atexit.register(_end_unused)


def _descriptors(forked: tuple[Child, Channel]) -> tuple[int, ...]:
    return forked[0].pipe, *(end_of_channel.fileno() for end_of_channel in forked[1])


def _make_channel() -> Channel:
    """Its messages are whole, however many processes write."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM)


def _has_threads() -> bool:
    """Whether there is any thread but this one, of a library's own too: a fork would not have it."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/task")) > 1
    return True


def _end_unused() -> None:
    global _forked
    if _forked is not None:
        nursery, channel = _forked
        if lost():  # its end of the pipe may be closed, which it takes for our end
            return
        _end(nursery)
        for end_of_channel in channel:
            end_of_channel.close()
        _forked = None


def _end(nursery: Child) -> None:
    """Have it kill all that is below it."""
    nursery.close()
    nursery.bury(_LONGEST)


def _become_nursery(parent: int, read: int, write: int) -> NoReturn:
    """In the fork: be as a process that was started for it."""
    code = 1
    try:
        die_with(parent)
        os.setpgid(0, 0)
        os.close(write)
        os.dup2(read, 0)
        os.close(read)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from hpcdp.clusters._nursery import main

        main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _start(channel: int) -> Child | None:
    """A nursery that is started, in a process group of its own; None where there is no process to be had.

    channel: a descriptor that it has too.
    """
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    command = [sys.executable, *flags, "-P", str(Path(__file__).with_name("_nursery.py"))]
    environment = {**os.environ, **worker_environment()}
    read, write = os.pipe()
    try:
        actions = [(os.POSIX_SPAWN_DUP2, read, 0), (os.POSIX_SPAWN_DUP2, channel, channel)]
        pid = os.posix_spawn(sys.executable, command, environment, file_actions=actions, setpgroup=0)
    except OSError:
        os.close(write)
        return None
    finally:
        os.close(read)
    return Child(pid, write)


_OWN, _CHANNEL, _WORKER = 1, 3, 2
"""Files that the driver keeps open: memory that workers share; the nursery's pipe and the channel; two of each worker."""
_AT_ONCE = 3  # more that it opened at one time, in five kinds of studies under limits of one file less each time
_SCHEDULER = 14 + SPARE_FILES  # more with Dask's two loops: at least, as it sometimes takes one more
_CONNECTIONS = 2  # more of each worker with them; 270 workers took 3.8 each in all


def refuse_few_files_for(workers: int, is_scheduled: bool = False) -> None:
    """StudyError where this process may not open as many files as it surely needs for so many workers."""
    more = _OWN + (_CHANNEL if _forked is None else 0) + _WORKER * workers + _AT_ONCE
    more += (_SCHEDULER + _CONNECTIONS * workers) * is_scheduled
    refuse_few_files(more, f"a run on {workers} worker process{'es' if workers > 1 else ''}")


class Processes:
    """Keeps `count` worker processes, until it is stopped. channel: on which they may say how they are reached."""

    def __init__(self, count: int, serving: Serving) -> None:
        self._count, self._serving = count, serving
        self._nursery: Child | None = None
        self._starts = 0
        self._theirs: socket.socket
        self.channel, self._theirs = _forked[1] if _forked is not None else _make_channel()
        if _forked is not None:
            let_go(*_descriptors(_forked))
        self._notes, self._slots = _share(count)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hpcdp-processes", daemon=True)

    def start(self) -> None:
        """Start them, and begin to look after them."""
        self._thread.start()

    def drawing(self) -> list[dict[str, Any]]:
        """What each worker draws now, as messages to the driver."""
        return [message for slot in self._slots if (message := slot.read())]

    def stop(self) -> None:
        """Replace none from now on."""
        self._stop.set()
        self._thread.join()
        if self._nursery is not None:
            self._nursery.say(b"\n")

    def end(self) -> None:
        """Wait a little for workers to leave, and kill those that do not, with all that they started."""
        for end_of_channel in (self.channel, self._theirs):
            end_of_channel.close()
        if self._notes >= 0:
            os.close(self._notes)
        if self._nursery is None:
            return
        end = time.monotonic() + _POLITE
        while not self._nursery.has_ended() and time.monotonic() < end:
            time.sleep(0.01)
        _end(self._nursery)

    def _run(self) -> None:
        started = float("-inf")
        while True:
            if self._nursery is not None and self._nursery.has_ended():
                _end(self._nursery)
                self._nursery = None
            if self._nursery is None and time.monotonic() - started > _AGAIN:
                started = time.monotonic()
                self._nursery = self._start_one()
            if self._stop.wait(_LOOK):
                return

    def _start_one(self) -> Child | None:
        global _forked
        self._starts += 1
        channel = self._theirs.fileno()
        nursery, _forked = _forked[0] if _forked is not None else _start(channel), None
        if nursery is not None:
            notes = f"/proc/{os.getpid()}/fd/{self._notes}"
            serving = replace(self._serving.named(str(self._starts)), notes=notes, channel=channel)
            message = pickle.dumps((self._count, _preparation())) + pickle.dumps(serving)
            nursery.say(len(message).to_bytes(8, "big") + message)
        return nursery


def _share(count: int) -> tuple[int, list[Slot]]:
    """Memory that workers open as a file, to note there what they draw; -1 and no slots where only Linux has it."""
    if sys.platform != "linux":
        return -1, []
    handle = os.memfd_create("hpcdp-drawing")
    os.ftruncate(handle, count * Slot.size)
    return handle, slots_of(handle, count)


def _preparation() -> dict[str, Any]:
    """What Python tells its own spawned processes of this one.

    Workers do not run the main script again, so that it needs no guard, or may have no file, unless a study names it.
    """
    found = multiprocessing.spawn.get_preparation_data("hpcdp")
    kept = (
        "sys_path",
        "sys_argv",
        "orig_dir",
        "dir",
        *(("init_main_from_path", "init_main_from_name") if names_main() else ()),
    )
    return {key: found[key] for key in kept if key in found}
