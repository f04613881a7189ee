"""Runs tasks on a Dask client: in order, each after those it depends on, never more than a window at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcdp.errors import LeaseError, StoreError
from hpcdp.schedule import Task
from hpcdp.tasks import Failure, Report, run_task

if TYPE_CHECKING:
    from distributed import Client, Future

_WINDOW = 3  # tasks submitted a thread: one runs, one waits, one is on its way
_MINIMUM_WINDOW = 8


@dataclass
class Outcome:
    """What a set of tasks did: how many chunks were drawn, and everything that failed."""

    failures: list[Failure] = field(default_factory=list)
    prints: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def submit(client: Client, function: Callable[..., Any], *arguments: Any, key: str) -> Future:
    """Submit one call that runs again elsewhere if its worker dies."""
    return client.submit(function, *arguments, key=key, pure=False)


def execute(
    client: Client,
    root: str,
    version: int,
    generation: int,
    tasks: Sequence[Task],
    on_done: Callable[[Task], None],
    is_lost: Callable[[], bool],
) -> Outcome:
    """Run all tasks; a task whose worker dies again and again is a failure, and the rest goes on.

    Raises StoreError as soon as the store cannot be written, LeaseError when another run has taken it over.
    """
    from distributed import as_completed

    outcome = Outcome()
    waiting = {task.name: {name for name in task.after} for task in tasks}
    after: dict[str, list[Task]] = {}
    for task in tasks:
        for name in task.after:
            after.setdefault(name, []).append(task)
    ready = deque(task for task in tasks if not waiting[task.name])
    running: dict[Any, Task] = {}
    queue = as_completed(loop=client.loop)
    window = max(_MINIMUM_WINDOW, _WINDOW * sum(client.nthreads().values()))

    def fill() -> None:
        while ready and len(running) < window:
            task = ready.popleft()
            future = submit(client, run_task, root, version, generation, task, key=f"hpcdp-{generation}-{task.name}")
            running[future] = task
            queue.add(future)

    fill()
    while running:
        future = next(queue)
        task = running.pop(future)
        if is_lost():
            raise LeaseError(f"a later run has taken over {root}; this one stops")
        _collect(future, task, outcome)
        future.release()
        on_done(task)
        for next_task in after.get(task.name, []):
            waiting[next_task.name].discard(task.name)
            if not waiting[next_task.name]:
                ready.append(next_task)
        fill()
    return outcome


def _collect(future: Future, task: Task, outcome: Outcome) -> None:
    from distributed import KilledWorker

    error = future.exception()
    if error is None:
        report: Report = future.result()
        outcome.failures += report.failures
        outcome.prints.update(report.prints)
        outcome.seconds += report.seconds
    elif isinstance(error, StoreError):
        raise error
    elif isinstance(error, KilledWorker):
        outcome.failures.append(Failure(f"task {task.name} ({task.kind})", "it ended its worker process each time it ran"))
    else:
        raise error


def run_batches(client: Client, function: Callable[..., Any], batches: Sequence[tuple[Any, ...]], name: str) -> list[Any]:
    """Results of function(*batch) for all batches, in their order, through a bounded window."""
    from distributed import as_completed

    results: list[Any] = [None] * len(batches)
    window = max(_MINIMUM_WINDOW, _WINDOW * sum(client.nthreads().values()))
    position: dict[Any, int] = {}
    queue = as_completed(loop=client.loop)
    following = 0
    while position or following < len(batches):
        while following < len(batches) and len(position) < window:
            future = submit(client, function, *batches[following], key=f"hpcdp-{name}-{following}-{id(results)}")
            position[future] = following
            queue.add(future)
            following += 1
        future = next(queue)
        results[position.pop(future)] = future.result()
        future.release()
    return results
