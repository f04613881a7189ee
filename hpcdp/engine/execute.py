"""Runs tasks on a place: in order, each after those it depends on, never more than a window at once.

A worker process that dies is started again, and what it was doing runs again, up to three times. Where the scheduler
keeps tasks to itself until a thread is free, what was blamed three times is guilty: its parts run for themselves, noting
what they draw, and those that end their worker again have failed. Elsewhere Dask blames all that the worker held, so the
parts of a blamed task run at the end, with nothing beside them.
"""

from __future__ import annotations

import asyncio
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from hpcdp._base.raised import describe_raised
from hpcdp.clusters.place import Place
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.engine.stopping import Stop, Stopped
from hpcdp.engine.tasks import run_task
from hpcdp.errors import LeaseError, MechanismError, StoreError
from hpcdp.planning.task import Task
from hpcdp.store.layout import Generation

if TYPE_CHECKING:
    from distributed import Future

_WINDOW = 3  # tasks submitted a thread: one runs, one waits, one is on its way
_MINIMUM_WINDOW = 8
_TICK = 0.5  # seconds between looks at what is no finished task: signals, lost leases, missing workers
_UNREADABLE = 10  # times, half a second apart, that a result which is there may fail to be read
_LATE = 60.0  # seconds after which a result that is there and has not come is fetched again
_LATE_TIMES = 3
_QUIET = 60.0  # seconds without a finished task after which a run says that it lives


TASKS = ("hpcdp.engine.tasks",)
"""Modules that workers need."""


class PlaceError(StoreError):
    """The place where tasks run is gone or has no workers; the store can be resumed."""


class Watch(Protocol):
    """What the engine tells and asks while it runs."""

    stop: Stop

    def done(self, task: Task, seconds: float) -> None:
        """A task is done and took so long."""

    def note(self, text: str) -> None:
        """One line of news."""

    def is_lost(self) -> bool:
        """Whether another run has taken the store over."""

    def as_failure(self, task: Task) -> Failure:
        """What to report of a task that ended its worker each time."""


@dataclass
class Outcome:
    """What a set of tasks did: how long they took, and everything that failed."""

    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0


class Window:
    """Futures on their way, at most a few a thread, and the patience to wait for them.

    Nothing here waits for Dask alone. Each result is fetched by a coroutine of its own on the client's loop: one that is
    lost with its worker is computed again, and is fetched then. Leaving the window gives up what is on its way.
    """

    def __init__(self, place: Place, watch: Watch) -> None:
        self.place, self.watch = place, watch
        self.futures: dict[Any, Any] = {}  # what each was submitted for
        self._run = uuid4().hex  # other runs may use the same scheduler
        self._late: dict[
            Any, tuple[float, int]
        ] = {}  # futures that are done and have not come: since when, fetched again
        self._finished: queue.SimpleQueue[tuple[Any, Any, BaseException | None]] = queue.SimpleQueue()
        self._last = self._seen = self._looked = time.monotonic()
        self._pause = _QUIET

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *exception: object) -> None:
        for future in self.futures:
            future.release()

    @property
    def has_room(self) -> bool:
        """Whether more may be submitted now."""
        return len(self.futures) < max(_MINIMUM_WINDOW, _WINDOW * self.place.threads())

    def submit(self, what: Any, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Submit one call for something."""
        key = f"hpcdp-{self._run}-{name}"
        client = self.place.client
        future: Future[Any] = client.submit(function, *arguments, key=key, pure=False)
        self.futures[future] = what
        self._begin_fetch(future)

    def _begin_fetch(self, future: Future[Any]) -> None:
        loop = self.place.client.loop
        assert loop is not None
        loop.add_callback(self._fetch, future)

    async def _fetch(self, future: Future[Any]) -> None:
        """Wait for one result, or for what it raises, and put it where `next` finds it, whatever happens."""
        from distributed import CancelledError, KilledWorker

        result: Any = None
        error: BaseException | None = None
        try:
            result = await self._gathered(future)
        except KilledWorker:
            pass
        except CancelledError:
            error = PlaceError("the Dask scheduler is gone, and with it all tasks that were not done")
        except Exception as raised:
            error = raised
        except BaseException as raised:  # of the call, or the loop ends: raised here, nobody would hear of it
            if future.status == "error":
                error = MechanismError(f"the task {_name_of(future)} raised {describe_raised(raised)}")
            else:
                error = PlaceError(f"a result cannot be fetched: {describe_raised(raised)}")
        self._finished.put((future, result, error))

    async def _gathered(self, future: Future[Any]) -> Any:
        """One result; Dask fetches those that are ready at once together. Raises what the call raised."""
        from distributed import CancelledError, KilledWorker

        unreadable = 0
        while True:
            try:
                (result,) = await self.place.client.gather([future], asynchronous=True)
                return result
            except (KilledWorker, CancelledError):
                raise
            except Exception as raised:
                if future.status == "error":
                    raise
                if future.status == "finished" and not isinstance(raised, OSError):  # no message was lost
                    unreadable += 1
                if unreadable == _UNREADABLE:
                    raise PlaceError(
                        f"the result of the task {_name_of(future)} cannot be read: {describe_raised(raised)}"
                    ) from raised
            await asyncio.sleep(_TICK)

    def next(self) -> list[tuple[Any, Any]]:
        """What was submitted for, and its result, of all that finished since; result None: its worker died each time.

        Waits for at least one. Raises what a call raised; Stopped when a request to stop is due, LeaseError when the lease
        was lost, PlaceError when the scheduler is gone or there was no worker for too long.
        """
        found: list[tuple[Any, Any, BaseException | None]] = []
        while not found:
            with suppress(queue.Empty):
                found.append(self._finished.get(timeout=_TICK))
            if not found or time.monotonic() - self._looked > _TICK:
                self._look()
        with suppress(queue.Empty):
            while True:
                found.append(self._finished.get_nowait())
        self._last = self._seen = time.monotonic()
        self._pause = _QUIET
        if self.watch.is_lost():
            raise LeaseError("a later run has taken over the store; this one stops")
        pairs = []
        for future, result, error in found:
            if future not in self.futures:  # fetched twice
                continue
            self._late.pop(future, None)
            if error is not None:
                raise error
            pairs.append((self.futures.pop(future), result))
            future.release()
        return pairs

    def _look(self) -> None:
        stop, now = self.watch.stop, time.monotonic()
        self._looked = now
        if stop.is_due:
            raise Stopped(stop.reason)
        if self.watch.is_lost():
            raise LeaseError("a later run has taken over the store; this one stops")
        self._fetch_late(now)
        fleet = self.place.fleet
        if self.place.threads() > 0:
            self._seen = now
        elif fleet is not None and (trouble := fleet.trouble()):
            raise PlaceError(f"no worker can be had: {trouble}; what is committed is kept")
        elif now - self._seen > self.place.patience:
            reason = f" ({fleet.waiting_for()})" if fleet is not None else ""
            raise PlaceError(f"no worker for {self.place.patience:.0f} s{reason}; what is committed is kept")
        if now - self._last > self._pause:
            self._pause *= 2
            self.watch.note(f"nothing has finished for {now - self._last:.0f} s: {self._state()}")

    def _fetch_late(self, now: float) -> None:
        """Fetch again what is done by its status for long and has not come; PlaceError where that did not help either."""
        for future in self.futures:
            if future.status not in ("finished", "error", "cancelled"):
                self._late.pop(future, None)
                continue
            since, times = self._late.setdefault(future, (now, 0))
            if now - since <= _LATE:
                continue
            if times == _LATE_TIMES:
                raise PlaceError(
                    f"the result of the task {_name_of(future)} is there and does not come; what is committed is kept"
                )
            self._late[future] = now, times + 1
            self._begin_fetch(future)

    def _state(self) -> str:
        threads, fleet = self.place.threads(), self.place.fleet
        if threads:
            running = min(sum(self._run in key for key in self.place.processing()), threads)
            return f"{running} {'task is' if running == 1 else 'tasks are'} running"
        return "no worker is connected" + (f"; {fleet.waiting_for()}" if fleet is not None else "")


def _name_of(future: Future[Any]) -> str:
    return str(future.key).split("-", 2)[2]


def execute(
    place: Place,
    root: str,
    version: int,
    generation: Generation,
    tasks: Sequence[Task],
    watch: Watch,
    function: Callable[[str, int, Generation, Task], Report] = run_task,
) -> Outcome:
    """Run all tasks; what ends its worker again and again becomes a failure, and the rest goes on.

    Raises StoreError as soon as the store cannot be written, and what Window.next raises.
    """
    outcome = Outcome()
    window = Window(place, watch)
    waiting = {task.name: set(task.after) for task in tasks}
    after: dict[str, list[Task]] = {}
    for task in tasks:
        for name in task.after:
            after.setdefault(name, []).append(task)
    ready = deque(task for task in tasks if not waiting[task.name])
    blamed: deque[Task] = deque()
    whole: dict[str, Task] = {}  # part -> the task that was cut
    parts: dict[str, int] = {}  # task -> parts that are left
    left = len(tasks)

    def finish(task: Task, seconds: float) -> None:
        nonlocal left
        if task.name in whole:
            task = whole[task.name]
            parts[task.name] -= 1
            if parts[task.name]:
                return
        left -= 1
        watch.done(task, seconds)
        for following in after.get(task.name, []):
            waiting[following.name].discard(task.name)
            if not waiting[following.name]:
                ready.append(following)

    def cut(task: Task) -> list[Task]:
        some = split(task)
        parts[task.name] = len(some)
        whole.update({part.name: task for part in some})
        return some

    with window:
        while ready or window.futures or blamed:
            if watch.stop.is_requested:
                ready.clear()
                blamed.clear()
                if place.fleet is not None:
                    place.fleet.freeze()
                if not window.futures:
                    raise Stopped(watch.stop.reason)
            place.want(left)
            while ready and window.has_room:
                task = ready.popleft()
                window.submit(task, task.name, function, root, version, generation, task)
            if (
                not window.futures
            ):  # only tasks are left that were blamed for the death of a worker that held others too
                task = blamed.popleft()
                if task.name in whole:
                    window.submit(task, f"{task.name}-alone", function, root, version, generation, task)
                else:
                    blamed.extendleft(reversed(cut(task)))
                    continue
            for task, report in window.next():
                if report is not None:
                    outcome.failures += report.failures
                    outcome.seconds += report.seconds
                    finish(task, report.seconds)
                elif task.name in whole or (place.blames_exactly and task.work.is_one_draw):
                    outcome.failures.append(watch.as_failure(task))
                    finish(task, math.nan)
                elif place.blames_exactly:
                    ready.extend(cut(task))
                else:
                    blamed.append(task)
    if left:  # a stop left tasks out, and those that ran are done
        watch.stop.check()
    return outcome


def split(task: Task) -> list[Task]:
    """The parts of a task that can fail for themselves: its blocks, pairs or cells."""
    return [replace(task, name=f"{task.name}.{i}", work=work, is_part=True) for i, work in enumerate(task.work.split())]


def run_batches(
    place: Place, watch: Watch, function: Callable[..., Any], batches: Sequence[tuple[Any, ...]], name: str
) -> list[Any]:
    """Results of function(*batch) for all batches, in their order; ends at once when a stop is requested."""
    results: list[Any] = [None] * len(batches)
    window = Window(place, watch)
    following = 0
    with window:
        while window.futures or following < len(batches):
            watch.stop.check()
            place.want(len(batches) - following + len(window.futures))
            while following < len(batches) and window.has_room:
                window.submit(following, f"{name}-{following}", function, *batches[following])
                following += 1
            for position, result in window.next():
                results[position] = result
                if result is None:
                    raise StoreError(
                        f"the task {name} ended its worker process each time it ran; is there enough memory?"
                    )
    return results
