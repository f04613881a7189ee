"""Runs tasks on an executor: in order, each after those it depends on, never more than a few for each thread at once.

A task that ended its process each time is cut: its parts run for themselves, and those that end their process again have failed.
One writer puts what tasks found in place, data first, and commits the records in groups.
"""

from __future__ import annotations

import math
import queue
import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from hpcdp._base.node import ProcessDied
from hpcdp.clusters.executors import Call, TaskExecutor
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.outcomes import Failure, NewFile, Report, stage_file
from hpcdp.engine.stopping import Stopped
from hpcdp.engine.task import Task
from hpcdp.engine.tasks import run_task
from hpcdp.errors import LeaseError, PlaceError, StoreError
from hpcdp.store.fence import replace as put_in_place
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import Entry, commit_all, record_names

_MOST, _EVERY = 1000, 0.5  # records in a group, and seconds between groups


class Writer:
    """Commits what tasks found. The layout is that of a run that holds the lease."""

    def __init__(self, layout: Layout) -> None:
        assert layout.generation is not None
        self._layout, self._generation = layout, layout.generation
        self._names: dict[str, set[str]] = {}
        self._waiting: list[Entry] = []
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """However the block ends, all that was found is committed."""
        with suppress(*([Exception] if kind else [])):  # the first error is the one to be told
            self.flush()

    def take(self, report: Report) -> None:
        """Put files in place now, and commit records soon. Of two of one name the first one stays: a chunk is counted once."""
        for finding in report.found:
            if finding.record is not None:
                kind, name, _ = finding.record
                if kind not in self._names:
                    self._names[kind] = record_names(self._layout, kind)
                if name in (names := self._names[kind]):
                    for staged in (file.staged for file in finding.files if file.staged is not None):  # written twice
                        shutil.rmtree(staged, ignore_errors=True)
                        with suppress(OSError):
                            staged.unlink()
                    continue
                names.add(name)
            for file in finding.files:
                self._place(file)
            if finding.record is not None:
                self._waiting.append(finding.record)
        if len(self._waiting) >= _MOST:
            self.flush()
        self.tick()

    def tick(self) -> None:
        """Commit what waits if it has waited for long."""
        if self._waiting and time.monotonic() - self._last >= _EVERY:
            self.flush()

    def flush(self) -> None:
        """Commit all that waits."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            commit_all(self._layout, waiting, self._generation)
        self._last = time.monotonic()

    def _place(self, file: NewFile) -> None:
        staged = file.staged
        if staged is None:
            staged = stage_file(self._layout)
            staged.write_bytes(file.content or b"")
        put_in_place(self._layout, self._generation, staged, self._layout.root / file.target)


_TICK = 0.5  # seconds between looks at what is no finished task: signals, lost leases, missing workers
_QUIET = 60.0  # seconds without a finished task after which a run says that it lives


class Window:
    """Calls on their way, and what each is for, `underway`. idle: called every half second of a wait."""

    def __init__(self, executor: TaskExecutor, watch: Monitor, idle: Callable[[], None] = lambda: None) -> None:
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
        """What calls that ended were for, and results, or ProcessDied; it raises theirs, Stopped, LeaseError, PlaceError."""
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
            state = "no worker is connected" + (f"; {fleet.waiting_for()}" if fleet is not None else "")
            if self.executor.threads():
                running = self.executor.running(len(self.underway))
                state = f"{running} {'task is' if running == 1 else 'tasks are'} running"
            self.watch.note(f"nothing has finished for {now - self._last:.0f} s: {state}")


_BATCH = 1.0  # seconds of a batch, about


@dataclass
class Outcome:
    """What a set of tasks did: how long they took, and everything that failed."""

    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0


def execute(
    executor: TaskExecutor,
    root: str,
    version: int,
    generation: Generation,
    tasks: Sequence[Task],
    watch: Monitor,
) -> Outcome:
    """Run all tasks; what ends its process again and again becomes a failure. StoreError once the store cannot be written."""
    outcome = Outcome()
    waiting = {task.name: set(task.after) for task in tasks}
    after: dict[str, list[Task]] = {}
    for task in tasks:
        for name in task.after:
            after.setdefault(name, []).append(task)
    ready = deque(task for task in tasks if not waiting[task.name])
    whole: dict[str, Task] = {}  # part -> the task that was cut
    parts: dict[str, int] = {}  # task -> parts that are left
    left, seconds = len(tasks), sum(task.seconds for task in tasks)

    def finish(task: Task, took: float) -> None:
        nonlocal left, seconds
        if task.name in whole:
            task = whole[task.name]
            parts[task.name] -= 1
            if parts[task.name]:
                return
        left -= 1
        seconds -= task.seconds
        watch.done(task, took)
        for following in after.get(task.name, []):
            waiting[following.name].discard(task.name)
            if not waiting[following.name]:
                ready.append(following)

    def cut(task: Task) -> list[Task]:
        pieces = split(task)
        parts[task.name] = len(pieces)
        whole.update({part.name: task for part in pieces})
        return pieces

    with Writer(Layout(Path(root), generation)) as writer, Window(executor, watch, writer.tick) as window:
        while ready or window.underway:
            if watch.stop.is_requested:
                ready.clear()
                if executor.fleet is not None:
                    executor.fleet.freeze()
                if not window.underway:
                    raise Stopped(watch.stop.reason)
            executor.want(left, seconds)
            batch = [ready.popleft() for _ in range(min(len(ready), max(0, window.room)))]
            own = ((task, (root, version, generation, task), executor.files_of(task)) for task in batch)
            window.begin([(task, Call(task.name, run_task, given, files)) for task, given, files in own])
            for task, report in window.next() if window.underway else ():
                if not isinstance(report, ProcessDied):
                    writer.take(report)
                    outcome.failures += report.failures
                    outcome.seconds += report.seconds
                    finish(task, report.seconds)
                elif task.name in whole or len(task.work.split()) == 1:
                    outcome.failures.append(watch.as_failure(task, report))
                    finish(task, math.nan)
                else:
                    ready.extend(cut(task))
    if left:  # a stop left tasks out, and those that ran are done
        watch.stop.check()
    return outcome


def split(task: Task) -> list[Task]:
    """The parts of a task that can fail for themselves: its blocks, pairs or cells."""
    return [replace(task, name=f"{task.name}.{i}", work=work) for i, work in enumerate(task.work.split())]


def run_batches(
    executor: TaskExecutor, watch: Monitor, function: Callable[..., Any], batches: Sequence[tuple[Any, ...]], name: str
) -> list[Any]:
    """Results of function(*batch) for all batches, in their order; ends at once when a stop is requested."""
    results: list[Any] = [None] * len(batches)
    following = 0
    with Window(executor, watch) as window:
        while window.underway or following < len(batches):
            watch.stop.check()
            waiting = len(batches) - following + len(window.underway)
            executor.want(waiting, waiting * _BATCH)
            numbers = range(following, min(len(batches), following + max(0, window.room)))
            window.begin([(number, Call(f"{name}-{number}", function, batches[number])) for number in numbers])
            following += len(numbers)
            for position, result in window.next():
                results[position] = result
                if isinstance(result, ProcessDied):
                    if result.risk is not None:
                        raise result
                    raise StoreError(
                        f"the task {name} ended its worker process each time it ran; is there enough memory?"
                    )
    return results
