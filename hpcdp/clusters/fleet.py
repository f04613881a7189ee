"""Keeps as many units of workers (jobs, or steps of an allocation) as the work needs, and replaces those that end.

Dask itself notices a lost worker only when it had connected, and replaces a job of several processes never. So the truth
about a unit is what the batch system says of it, asked every few seconds in a thread of its own.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcdp._base.files import replaced
from hpcdp.clusters.slurm import Job, JobFolder, SlurmError

if TYPE_CHECKING:
    from distributed import SpecCluster

_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0  # seconds between tries to start units that fail
_AT_ONCE = 64  # units that are being started
_POLITE = 10.0  # seconds in which dismissed workers may leave by themselves
_REFUSED, _RELEASED = "REFUSED", "RELEASED"


@dataclass
class Unit(Job):
    """A job or step of workers. name: of its worker too."""

    has_connected: bool = False

    def refuse(self, reason: str) -> None:
        """It could not be started."""
        self.state, self.reason = _REFUSED, reason


class Units(ABC):
    """How units of a Dask cluster are started, looked at and ended; SlurmError when the batch system does not answer."""

    word: str

    def __init__(self, cluster: SpecCluster, cores: int, folder: JobFolder, script: Callable[[str], str]) -> None:
        """script: of a worker's name."""
        self._cluster: Any = cluster
        self._cores, self._folder, self._script, self._count = cores, folder, script, 0

    def start(self, count: int) -> list[Unit]:
        """Start some, whose names were never used: a worker of a lost job may still be connected under its own."""
        self._count += count
        numbers = [str(number) for number in range(self._count - count + 1, self._count + 1)]
        units = [Unit(number, f"{self._folder.name}-{number}", cpus=self._cores) for number in numbers]
        scripts = [self._script(unit.name) for unit in units]
        with replaced(self._folder.worker_script) as new:
            new.write_text(scripts[-1])
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._start, units, scripts))
        return units

    @abstractmethod
    def _start(self, unit: Unit, script: str) -> None:
        """Start one, or refuse it with the reason."""

    @abstractmethod
    def look(self, units: Sequence[Unit]) -> None:
        """Bring states, times, nodes and reasons up to date."""

    @abstractmethod
    def end(self, units: Sequence[Unit]) -> None:
        """End those that run."""

    def dismiss(self) -> None:
        """Ask all connected workers to leave, upon which their units end by themselves."""
        self._cluster.sync(self._cluster.scheduler.dismiss)

    def workers(self) -> Mapping[str, int]:
        """Names of the workers that are connected, and how many tasks each has."""
        return self._cluster.sync(self._cluster.scheduler.connected)


class Fleet:
    """Starts, watches, replaces and ends units, in a thread. size: how many for so many tasks of so many seconds in all."""

    tries = 6

    def __init__(
        self,
        units: Units,
        size: Callable[[int, float], int],
        poll: float,
        note: Callable[[str], None],
    ) -> None:
        self._units, self._size = units, size
        self._poll, self._note = poll, note
        self._wanted, self._frozen = (0, 0.0), False
        self._active: list[Unit] = []
        self._ended: list[Unit] = []
        self._failures, self._not_before, self._last_failure = 0, 0.0, ""
        self._silent = False  # whether the batch system does not answer at present
        self._crowd = 0  # workers connected
        self._wake, self._stop, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="hpcdp-fleet", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def want(self, tasks: int, seconds: float) -> None:
        """So many tasks are left, which take so long in all; the size follows at the next look."""
        first = self._wanted[0] == 0 and tasks > 0
        self._wanted = tasks, seconds
        if first:
            self._wake.set()

    def freeze(self) -> None:
        """Start no more units."""
        self._frozen = True

    def trouble(self) -> str | None:
        """Why there can be no workers, once as many tries as are sensible have failed."""
        if self._active or self._failures < self.tries:
            return None
        return f"{self._failures} tries to start {self._units.word}s failed; the last: {self._last_failure}"

    def waiting_for(self) -> str:
        """What the units that are not there yet wait for."""
        with self._lock:
            states = [f"{unit.state.lower()} ({unit.reason})" for unit in self._active if not unit.has_connected]
        counts = {state: states.count(state) for state in dict.fromkeys(states)}
        words = [f"{count} {self._units.word}{'s' if count > 1 else ''} {state}" for state, count in counts.items()]
        if self._silent:
            words.append("the batch system does not answer")
        if self._last_failure and not words:
            words.append(f"the last try failed: {self._last_failure}")
        return ", ".join(words) or f"no {self._units.word} yet"

    def status(self) -> dict[str, Any]:
        """Units that are active, how many ended in which state, and the core-seconds of all."""
        with self._lock:
            active, ended = list(self._active), list(self._ended)
        states = [unit.state for unit in ended]
        return {
            "word": self._units.word,
            "active": [{key: getattr(u, key) for key in ("id", "state", "node", "seconds", "reason")} for u in active],
            "ended": {state: states.count(state) for state in sorted(set(states))},
            "started": sum(bool(u.seconds) for u in [*active, *ended]),
            "core_seconds": sum(u.seconds * u.cpus for u in [*active, *ended]),
            "workers": self._crowd,
        }

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
                self._mend()
                self._silent = False
            except SlurmError as error:
                if not self._silent:
                    self._note(f"{error}; asked again every {self._poll:g} s")
                self._silent = True
            except Exception as error:  # the thread must outlive what it did not foresee, and say so
                if self._stop.is_set():
                    break
                self._note(f"unexpected {type(error).__name__} while looking after the {self._units.word}s: {error}")
            self._wake.wait(self._poll)
            self._wake.clear()

    def close(self) -> None:
        """End all units, politely first, and the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        deadline = time.monotonic() + _POLITE
        try:
            self._units.dismiss()
            while any(u.is_active and u.has_connected for u in self._active) and time.monotonic() < deadline:
                time.sleep(0.5)
                self._units.look([unit for unit in self._active if unit.is_active])
        except SlurmError:
            self._silent = True
        try:
            self._units.end([unit for unit in self._active if unit.is_active])
        except SlurmError as error:
            self._note(f"could not end the {self._units.word}s: {error}; they leave when they find no scheduler")
        for unit in self._active:
            unit.state = _RELEASED if unit.is_active else unit.state
        with self._lock:
            self._ended += self._active
            self._active = []

    def _look(self) -> None:
        names = self._units.workers()
        self._crowd = len(names)
        self._units.look(self._active)
        for unit in self._active:
            unit.has_connected = unit.has_connected or unit.name in names
        if names:
            self._failures, self._last_failure = 0, ""
        gone = [unit for unit in self._active if not unit.is_active]
        if not gone:
            return
        for unit in gone:
            where = f" on {unit.node}" if unit.node else ""
            self._note(f"{self._units.word} {unit.id}{where} ended: {unit.state.lower()} after {unit.seconds} s")
        vain = [u for u in gone if not u.has_connected and u.state not in ("PREEMPTED", "CANCELLED", "NODE_FAIL")]
        if vain:
            self._fail(f"{self._units.word} {vain[0].id} ended before its workers connected: {vain[0].state.lower()}")
        self._units.end(gone)
        with self._lock:
            self._active = [unit for unit in self._active if unit.is_active]
            self._ended += gone

    def _mend(self) -> None:
        missing = (self._size(*self._wanted) if self._wanted[0] > 0 else 0) - len(self._active)
        if missing > 0 and not self._frozen and time.monotonic() >= self._not_before and not self.trouble():
            started = self._units.start(missing)
            refused = [unit for unit in started if not unit.is_active]
            with self._lock:
                self._active += [unit for unit in started if unit.is_active]
            if refused:
                self._fail(refused[0].reason)
                again = f"tried again in {self._not_before - time.monotonic():.0f} s"
                what = f"{len(refused)} of {missing} {self._units.word}s refused: {refused[0].reason}"
                self._note(f"{what}; {'given up' if self.trouble() else again}")
        elif missing < 0:
            self._release(-missing)

    def _release(self, count: int) -> None:
        """End units that nobody will miss: those that wait in the queue, then those whose workers are idle."""
        busy = {name for name, tasks in self._units.workers().items() if tasks}
        waiting = [unit for unit in self._active if not unit.has_connected]
        idle = [unit for unit in self._active if unit.has_connected and unit.name not in busy]
        chosen = (waiting + idle)[:count]
        if not chosen:
            return
        self._units.end(chosen)
        for unit in chosen:
            unit.state = _RELEASED
        with self._lock:
            self._active = [unit for unit in self._active if unit.is_active]
            self._ended += chosen

    def _fail(self, reason: str) -> None:
        self._failures += 1
        self._last_failure = reason
        self._not_before = time.monotonic() + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._failures - 1))
