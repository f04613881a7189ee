"""Runs tasks on an executor: in order, each after those it depends on, never more than a few for each thread at once.

A task that ended its process each time is cut: its parts run for themselves, and those that end their process again have failed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpcdp._base.node import ProcessDied
from hpcdp.clusters.executors import Call, TaskExecutor
from hpcdp.engine.outcomes import Failure
from hpcdp.engine.stopping import Stopped
from hpcdp.engine.task import Task
from hpcdp.engine.tasks import run_task
from hpcdp.engine.window import Watch, Window
from hpcdp.engine.writer import Writer, committing
from hpcdp.errors import StoreError
from hpcdp.store.layout import Generation, Layout

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
    watch: Watch,
    function: Callable[..., Any] = run_task,
) -> Outcome:
    """Run all tasks; what ends its process again and again becomes a failure, and the rest goes on.

    Raises StoreError as soon as the store cannot be written, and what Window.next raises.
    """
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

    def call_of(task: Task) -> Call:
        return Call(task.name, function, (root, version, generation, task), executor.files_of(task))

    writer = Writer(Layout(Path(root), generation))
    with committing(writer), Window(executor, watch, writer.tick) as window:
        while ready or window.underway:
            if watch.stop.is_requested:
                ready.clear()
                if executor.fleet is not None:
                    executor.fleet.freeze()
                if not window.underway:
                    raise Stopped(watch.stop.reason)
            executor.want(left, seconds)
            batch = [ready.popleft() for _ in range(min(len(ready), max(0, window.room)))]
            window.begin([(task, call_of(task)) for task in batch])
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
    executor: TaskExecutor, watch: Watch, function: Callable[..., Any], batches: Sequence[tuple[Any, ...]], name: str
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
