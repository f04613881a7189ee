"""The processes above a worker: a keeper, which replaces it, and the nursery, which replaces keepers.

Whatever a worker has started ends with it, on Linux in whatever session it is: orphans become children of the keeper
(PR_SET_CHILD_SUBREAPER), which kills them. If the keeper itself is killed, its worker dies with it (PR_SET_PDEATHSIG), and
the nursery kills the rest.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hpcdp._base.below import Child, adopt_orphans, children, die_with, kill_below, name_process, reap
from hpcdp._base.slow_draws import Slot, note_in, slots_of
from hpcdp.clusters._serving import Serving

_LEFT = 83  # exit code of a keeper whose worker is not to be replaced
_AGAIN = 0.25  # seconds from one fork to the next: what ends as it starts must not keep a core busy
_LOOK = 1.0  # seconds after which the nursery looks at its keepers, should a signal have been missed
_LONGEST = 10.0  # seconds that a keeper may take to kill what is below it; it gives up after five itself


def keep(count: int, serving: Serving, preparation: dict[str, Any]) -> None:
    """Keep so many workers until the driver ends this, or all have left, which ends the process; returns in a worker."""
    for name in serving.modules:
        importlib.import_module(name)
    gc.freeze()  # what is loaded stays shared with the workers
    adopt_orphans()
    name_process("hpcdp-nursery")
    signals, slots = _Signals(), _slots(serving, count)
    kept: list[Child | None] = [None] * count
    has_left = [False] * count
    started = [float("-inf")] * count
    number, replaces = 0, True
    while True:
        for place, keeper in enumerate(kept):
            if keeper is not None and keeper.has_ended():
                keeper.close()
                has_left[place] = keeper.bury(_LONGEST) == _LEFT
                kept[place] = None
        _kill_others({keeper.pid for keeper in kept if keeper is not None})
        for place, keeper in enumerate(kept):
            if keeper is None and replaces and not has_left[place] and time.monotonic() - started[place] > _AGAIN:
                started[place], number = time.monotonic(), number + 1
                kept[place], is_keeper = _fork_keeper(signals, [other.pipe for other in kept if other is not None])
                if is_keeper:
                    return _keep_one(signals, serving.named(f"{place}-{number}"), preparation, slots[place])
        if (not replaces or all(has_left)) and not any(kept):
            os._exit(0)
        word = signals.wait(
            _LOOK if all(keeper is not None or left for keeper, left in zip(kept, has_left, strict=True)) else _AGAIN
        )
        if word is None:
            continue
        running = [keeper for keeper in kept if keeper is not None]
        if word:
            replaces = False
            for keeper in running:
                keeper.say(word)
            continue
        for keeper in running:
            keeper.close()
        for keeper in running:
            keeper.bury(_LONGEST)
        kill_below()
        os._exit(0)


def _slots(serving: Serving, count: int) -> list[Slot] | list[None]:
    """Where the workers note what they draw; without them they tell of it themselves, as far as they can."""
    try:
        handle = os.open(serving.notes, os.O_RDWR)
    except OSError:
        return [None] * count
    try:
        return slots_of(handle, count)
    finally:
        os.close(handle)


def _keep_one(signals: _Signals, serving: Serving, preparation: dict[str, Any], slot: Slot | None) -> None:
    """A keeper: one worker after another until the nursery says so, which ends the process; returns in a worker at its end."""
    name_process("hpcdp-keeper")
    adopt_orphans()
    said, left = os.pipe()
    os.set_blocking(said, False)
    serving = replace(serving, left=left)
    while worker := signals.fork():
        begin = time.monotonic()
        replaces = signals.watch(worker)
        kill_below()
        with suppress(BlockingIOError):
            if os.read(said, 1):
                os._exit(_LEFT)
        if not replaces:
            os.killpg(0, signal.SIGKILL)
        time.sleep(max(0.0, begin + _AGAIN - time.monotonic()))
        serving = serving.again()
    name_process("hpcdp-worker")
    note_in(slot)
    serving.serve(preparation)


class _Signals:
    """Waits for ends of children, and for what standard input says."""

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Listen in this process."""
        self._ended, self._wake = os.pipe()
        os.set_blocking(self._ended, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._ended, select.POLLIN)

    def close(self) -> None:
        """In a fork: what it inherits of these is another process's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._ended)
        os.close(self._wake)

    def wait(self, seconds: float | None = None) -> bytes | None:
        """What standard input said, b"" at its end; None when a child may have ended or the time is over."""
        ready = dict(self._poll.poll(None if seconds is None else 1000 * seconds))
        with suppress(BlockingIOError):
            os.read(self._ended, 4096)
        return os.read(0, 1) if 0 in ready else None

    def fork(self) -> int:
        """The process of a new worker; in it, 0."""
        keeper = os.getpid()
        worker = os.fork()
        if worker == 0:
            die_with(keeper)
            self.close()
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), 0)
        return worker

    def watch(self, worker: int) -> bool:
        """Wait until the worker ends or the nursery does; whether another worker may follow."""
        replaces = True
        while reap(worker) is None:
            word = self.wait()
            if word == b"":
                return False
            replaces = replaces and word is None
        return replaces


def _fork_keeper(signals: _Signals, others: list[int]) -> tuple[Child | None, bool]:
    """A new keeper, None where there was no process to be had; and whether this is it, with its own input and signals.

    others: pipes that it must not hold open.
    """
    read, write = os.pipe()
    try:
        pid = os.fork()
    except OSError:  # no process or memory is left at the moment
        os.close(read)
        os.close(write)
        return None, False
    if pid == 0:
        os.setpgid(0, 0)
        signals.close()
        for pipe in (write, *others):
            os.close(pipe)
        os.dup2(read, 0)
        os.close(read)
        signals.open()
        return None, True
    os.close(read)
    return Child(pid, write), False


def _kill_others(keepers: set[int]) -> None:
    """Kill what killed keepers left."""
    for child in set(children(os.getpid())) - keepers:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
