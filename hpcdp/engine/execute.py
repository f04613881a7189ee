"""Runs tasks on a place: in order, each after those it depends on, never more than a window at once.

A worker process that dies is started again, and what it was doing runs again, up to three times. Where the scheduler
keeps tasks to itself until a thread is free, what was blamed three times is guilty: its parts run for themselves, noting
what they draw, and those that end their worker again have failed. Elsewhere Dask blames all that the worker held, so the
parts of a blamed task run at the end, with nothing beside them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hpcdp.clusters.place import Place
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.engine.stopping import Stopped
from hpcdp.engine.tasks import run_task, run_task_inside
from hpcdp.engine.window import Watch, open_window
from hpcdp.errors import StoreError
from hpcdp.planning.task import Task
from hpcdp.store.layout import Generation

TASKS = ("hpcdp.engine.tasks",)
"""Modules that workers need."""


@dataclass
class Outcome:
    """What a set of tasks did: how long they took, and everything that failed."""

    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0


def execute(
    place: Place,
    root: str,
    version: int,
    generation: Generation,
    tasks: Sequence[Task],
    watch: Watch,
    function: Callable[[str, int, Generation, Task], Report] | None = None,
) -> Outcome:
    """Run all tasks; what ends its worker again and again becomes a failure, and the rest goes on.

    function: run_task, or what does so in the driver. Raises StoreError as soon as the store cannot be written, and what
    Window.next raises.
    """
    function = function or (run_task_inside if place.is_inside else run_task)
    outcome = Outcome()
    window = open_window(place, watch)
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
        while ready or window.underway or blamed:
            if watch.stop.is_requested:
                ready.clear()
                blamed.clear()
                if place.fleet is not None:
                    place.fleet.freeze()
                if not window.underway:
                    raise Stopped(watch.stop.reason)
            place.want(left)
            while ready and window.has_room:
                task = ready.popleft()
                window.submit(task, task.name, function, root, version, generation, task)
            if (
                not window.underway
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
    window = open_window(place, watch)
    following = 0
    with window:
        while window.underway or following < len(batches):
            watch.stop.check()
            place.want(len(batches) - following + len(window.underway))
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
