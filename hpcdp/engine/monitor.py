"""How far a run is: told to the progress display, and to the lease, from which `hpcdp status` reads it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from hpcdp._base.doing import Listener
from hpcdp._base.node import ProcessDied
from hpcdp._base.rounding import duration
from hpcdp.clusters.executors import TaskExecutor
from hpcdp.engine.outcomes import Failure
from hpcdp.engine.progress import Progress
from hpcdp.engine.stopping import Stop
from hpcdp.engine.task import ClusterNeeds, Task

_RATE_SECONDS = 120.0  # over which the rate is taken
_BEYOND, _LEAST = 3.0, 3.0  # times the planned work from which on a run says so, and seconds that a plan has at least


class Monitor:
    """What the engine tells and asks while it runs; its news go into the lease with each heartbeat."""

    def __init__(
        self,
        progress: Progress,
        stop: Stop,
        is_lost: Callable[[], bool],
        describe_killed: Callable[[Task, ProcessDied], Failure],
        forecast: ClusterNeeds | None = None,
    ) -> None:
        self.stop, self.is_lost, self.as_failure = stop, is_lost, describe_killed
        self._progress, self._forecast = progress, forecast
        self._executor: TaskExecutor | None = None
        self._phase, self._began = "start", time.time()
        self._total = self._done = self._planned = self._planned_done = 0.0
        self._busy = self._foreseen = 0.0  # seconds of work: done, and planned at the start
        self._recent: deque[tuple[float, float, float]] = deque()  # (time, units done, planned seconds done)
        self.listener = Listener(progress.note)
        self._lock = threading.Lock()

    def note(self, text: str) -> None:
        """One line of news."""
        self._progress.note(text)

    @contextmanager
    def at(self, executor: TaskExecutor) -> Iterator[None]:
        """This run computes there within, and hears of draws that take long."""
        self._executor = executor
        with executor.listening(self.listener.hear):
            yield

    def begin(self, phase: str, tasks: Sequence[Task]) -> None:
        """A phase of scheduled tasks begins; its units are chunks."""
        self._compare(self._busy + sum(task.seconds for task in tasks), "is planned by now")
        with self._lock:
            self._phase = phase
            self._total, self._done = sum(task.units for task in tasks), 0.0
            self._planned, self._planned_done = sum(task.seconds for task in tasks), 0.0
            self._recent.clear()
            self._recent.append((time.monotonic(), 0.0, 0.0))
        self._progress.begin(phase, self._planned)

    def _compare(self, seconds: float, how: str) -> None:
        """Note once that a run goes far beyond the work that its first plan had."""
        if not self._foreseen:
            self._foreseen = max(_LEAST, seconds)
        elif seconds > _BEYOND * self._foreseen:
            self.note(
                f"slower than planned: {duration(seconds)} of work {how}; the first plan said {duration(self._foreseen)}"
            )
            self._foreseen = math.inf

    def begin_batches(self, phase: str, units: int) -> None:
        """A short phase begins."""
        with self._lock:
            self._phase = phase
        self._progress.begin(phase, units)

    def advance(self, units: float) -> None:
        """So much of a short phase is done."""
        self._progress.advance(units)

    def done(self, task: Task, seconds: float) -> None:
        """A task is done and took so long (NaN: it failed)."""
        with self._lock:
            now = time.monotonic()
            self._done += task.units
            self._planned_done += task.seconds
            self._busy += 0.0 if math.isnan(seconds) else seconds
            self._recent.append((now, self._done, self._planned_done))
            while len(self._recent) > 2 and now - self._recent[1][0] > _RATE_SECONDS:
                self._recent.popleft()
        self._compare(self._busy, "is done")
        self._progress.advance(task.seconds)

    def news(self) -> dict[str, Any]:
        """What a lease's heartbeat carries; all of it was true a moment ago."""
        with self._lock:
            first = self._recent[0] if self._recent else (time.monotonic(), 0.0, 0.0)
            passed = time.monotonic() - first[0]
            rate = (self._done - first[1]) / passed if passed > 0 else 0.0
            speed = (self._planned_done - first[2]) / passed if passed > 0 else 0.0
            body: dict[str, Any] = {
                "phase": self._phase,
                "seconds": time.time() - self._began,
                "done": self._done,
                "total": self._total,
                "rate": rate,
                "left": (self._planned - self._planned_done) / speed if speed > 0 else None,
                "busy_seconds": self._busy,
            }
        body["slow"] = self.listener.slow()
        executor = self._executor
        if executor is not None:
            body["threads"] = executor.known_threads
            body["dashboard"] = executor.known_dashboard
            body["fleet"] = executor.fleet.status() if executor.fleet is not None else None
        body["forecast"] = asdict(self._forecast) if self._forecast is not None else None
        return body
