"""Worker processes of this machine, each with a keeper that replaces it; keepers that end are replaced here."""

from __future__ import annotations

import multiprocessing.spawn
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpcdp.clusters._serving import Serving
from hpcdp.imports import names_main

_LOOK = 0.1  # seconds between looks at the keepers
_AGAIN = 1.0  # seconds from one start in a place to the next: what ends as it starts must not keep a core busy
_POLITE = 4.0  # seconds in which workers that were told to leave may do so
_LONGEST = 10.0  # seconds that a keeper may take to kill what is below it; it gives up after five itself
_HASHING = "6640"  # Dask's own; two workers that hash differently would draw differently where sets are ordered


class Processes:
    """Keeps `count` worker processes, until it is stopped.

    serving: what the workers of a keeper with this name do; names differ, because the scheduler may not have missed the
    last one yet. variables: set for the workers where the environment has no value.
    """

    def __init__(self, count: int, serving: Callable[[str], Serving], variables: dict[str, str]) -> None:
        self._serving = serving
        self._variables = variables
        self._kept: list[subprocess.Popen[bytes] | None] = [None] * count
        self._started = [float("-inf")] * count
        self._starts = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hpcdp-processes", daemon=True)

    def start(self) -> None:
        """Start them, and begin to look after them."""
        self._thread.start()

    def stop(self) -> None:
        """Replace none from now on."""
        self._stop.set()
        self._thread.join()
        for keeper in self._kept:
            if keeper is not None:
                _say(keeper, b"\n")

    def end(self) -> None:
        """Wait a little for workers to leave, and kill those that do not, with all that they started."""
        end = time.monotonic() + _POLITE
        kept = [keeper for keeper in self._kept if keeper is not None]
        while any(_is_running(keeper) for keeper in kept) and time.monotonic() < end:
            time.sleep(0.01)
        for keeper in kept:
            _close(keeper)
        for keeper in kept:
            _bury(keeper)

    def _run(self) -> None:
        while True:
            for place, keeper in enumerate(self._kept):
                if keeper is not None and not _is_running(keeper):
                    _close(keeper)
                    _bury(keeper)
                    self._kept[place] = keeper = None
                if keeper is None and time.monotonic() - self._started[place] > _AGAIN:
                    self._started[place] = time.monotonic()
                    self._kept[place] = self._start_one(place)
            if self._stop.wait(_LOOK):
                return

    def _start_one(self, place: int) -> subprocess.Popen[bytes] | None:
        """A keeper and its worker, in a process group of their own, which Ctrl-C on a terminal does not reach."""
        self._starts += 1
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
        command = [sys.executable, *flags, "-P", str(Path(__file__).with_name("_keeper.py"))]
        environment = {**self._variables, **os.environ}
        if environment.get("PYTHONHASHSEED") in (None, "0"):
            environment["PYTHONHASHSEED"] = _HASHING
        try:
            keeper = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, bufsize=0, process_group=0)
        except OSError:  # no process or memory is left at the moment
            return None
        told = pickle.dumps(_preparation()) + pickle.dumps(self._serving(f"{place}-{self._starts}"))
        _say(keeper, len(told).to_bytes(8, "big") + told)
        return keeper


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


def _say(keeper: subprocess.Popen[bytes], words: bytes) -> None:
    assert keeper.stdin is not None
    with suppress(BrokenPipeError):  # it was killed already, which the next look finds
        keeper.stdin.write(words)


def _is_running(keeper: subprocess.Popen[bytes]) -> bool:
    """Whether a keeper has not ended, without reaping it: its number must stay its group's."""
    return os.waitid(os.P_PID, keeper.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None


def _close(keeper: subprocess.Popen[bytes]) -> None:
    """Have a keeper kill all that is below it."""
    assert keeper.stdin is not None
    keeper.stdin.close()


def _bury(keeper: subprocess.Popen[bytes]) -> None:
    """Wait for a keeper's end; its group goes with it, even if the keeper was killed, or is frozen."""
    end = time.monotonic() + _LONGEST
    while _is_running(keeper) and time.monotonic() < end:
        time.sleep(0.002)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(keeper.pid, signal.SIGKILL)
    keeper.wait()
