"""Calls on their way to an executor, at most a few for each thread, and the patience to wait for them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol, Self

from hpcdp._base.node import ProcessDied
from hpcdp.clusters.executors import Call, TaskExecutor
from hpcdp.engine.outcomes import Failure
from hpcdp.engine.stopping import Stop, Stopped
from hpcdp.engine.task import Task
from hpcdp.errors import LeaseError, PlaceError

_TICK = 0.5  # seconds between looks at what is no finished task: signals, lost leases, missing workers
_QUIET = 60.0  # seconds without a finished task after which a run says that it lives


class Watch(Protocol):
    """What the engine tells and asks while it runs."""

    stop: Stop

    def done(self, task: Task, seconds: float) -> None:
        """A task is done and took so long."""

    def note(self, text: str) -> None:
        """One line of news."""

    def is_lost(self) -> bool:
        """Whether another run has taken the store over."""

    def as_failure(self, task: Task, died: ProcessDied) -> Failure:
        """What to report of a task that ended its process each time."""


class Window:
    """Calls on their way, and what the wait for them looks at. underway: what those were begun for that have not ended.

    idle: called every half second of a wait.
    """

    def __init__(self, executor: TaskExecutor, watch: Watch, idle: Callable[[], None] = lambda: None) -> None:
        self.executor, self.watch, self._idle = executor, watch, idle
        self.underway: dict[Future[Any], Any] = {}
        self._ended: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._last = self._seen = self._looked = time.monotonic()
        self._pause = _QUIET

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Give up what is on its way."""
        for future in self.underway:
            future.cancel()

    @property
    def room(self) -> int:
        """How many more calls may begin now."""
        return self.executor.room - len(self.underway)

    def begin(self, calls: Sequence[tuple[Any, Call]]) -> None:
        """Begin calls, each for something."""
        self._look_if_due()
        for (what, _), future in zip(calls, self.executor.begin([call for _, call in calls]), strict=True):
            self.underway[future] = what
            future.add_done_callback(self._ended.put)

    def next(self) -> list[tuple[Any, Any]]:
        """What calls were begun for, and their results, of all that ended since; ProcessDied in place of a result.

        Waits for at least one. Raises what a call raised; Stopped when a request to stop is due, LeaseError when the lease
        was lost, PlaceError when the scheduler is gone or there was no worker for too long.
        """
        ended: list[Future[Any]] = []
        while not ended:
            with suppress(queue.Empty):
                ended.append(self._ended.get(timeout=_TICK))
            self._idle()
            self._look_if_due()
        with suppress(queue.Empty):
            while True:
                ended.append(self._ended.get_nowait())
        self._last = self._seen = time.monotonic()
        self._pause = _QUIET
        self._refuse_lost()
        results: list[tuple[Any, Any]] = []
        for future in ended:
            error = future.exception()
            if error is None or isinstance(error, ProcessDied):
                results.append((self.underway.pop(future), error or future.result()))
            elif not results and future is ended[-1]:
                raise error
            else:
                self._ended.put(future)  # first what the others found, which would be lost
        return results

    def _refuse_lost(self) -> None:
        if self.watch.is_lost():
            raise LeaseError("a later run has taken over the store; this one stops")

    def _look_if_due(self) -> None:
        if time.monotonic() - self._looked > _TICK:
            self._look()

    def _look(self) -> None:
        stop, now = self.watch.stop, time.monotonic()
        self._looked = now
        if stop.is_due:
            raise Stopped(stop.reason)
        self._refuse_lost()
        fleet = self.executor.fleet
        if self.executor.threads() > 0:
            self._seen = now
        elif fleet is not None and (trouble := fleet.trouble()):
            raise PlaceError(f"no worker can be had: {trouble}; what is committed is kept")
        elif now - self._seen > self.executor.patience:
            reason = f" ({fleet.waiting_for()})" if fleet is not None else ""
            raise PlaceError(f"no worker for {self.executor.patience:.0f} s{reason}; what is committed is kept")
        if now - self._last > self._pause:
            self._pause *= 2
            self.watch.note(f"nothing has finished for {now - self._last:.0f} s: {self._state()}")

    def _state(self) -> str:
        threads, fleet = self.executor.threads(), self.executor.fleet
        if threads:
            running = self.executor.running(len(self.underway))
            return f"{running} {'task is' if running == 1 else 'tasks are'} running"
        return "no worker is connected" + (f"; {fleet.waiting_for()}" if fleet is not None else "")
