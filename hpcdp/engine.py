"""Runs tasks on a Dask client: in order, each after those it depends on, never more than a window at once.

When a worker dies, Dask blames every task that it held. So a blamed task runs again, cut in its parts, with nothing
beside it: what then ends its worker again is what failed, and everything else gets done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hpcdp.errors import LeaseError, StoreError
from hpcdp.schedule import Task
from hpcdp.tasks import Failure, Report, run_task

if TYPE_CHECKING:
    from distributed import Client, Future

_WINDOW = 3  # tasks submitted a thread: one runs, one waits, one is on its way
_MINIMUM_WINDOW = 8


@dataclass
class Outcome:
    """What a set of tasks did: how long they took, and everything that failed."""

    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0


def submit(client: Client, function: Callable[..., Any], *arguments: Any, key: str) -> Future[Any]:
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
    as_failure: Callable[[Task], Failure],
) -> Outcome:
    """Run all tasks; a task whose worker dies again and again becomes a failure, and the rest goes on.

    Raises StoreError as soon as the store cannot be written, LeaseError when another run has taken it over.
    """
    from distributed import as_completed

    outcome = Outcome()
    run = uuid4().hex  # other runs may use the same scheduler
    waiting = {task.name: set(task.after) for task in tasks}
    after: dict[str, list[Task]] = {}
    for task in tasks:
        for name in task.after:
            after.setdefault(name, []).append(task)
    ready = deque(task for task in tasks if not waiting[task.name])
    running: dict[Any, Task] = {}
    blamed: deque[Task] = deque()
    queue = as_completed(loop=client.loop)
    window = max(_MINIMUM_WINDOW, _WINDOW * sum(client.nthreads().values()))

    def start(task: Task) -> None:
        future = submit(client, run_task, root, version, generation, task, key=f"hpcdp-{run}-{task.name}")
        running[future] = task
        queue.add(future)

    def finish(task: Task) -> None:
        on_done(task)
        for next_task in after.get(task.name, []):
            waiting[next_task.name].discard(task.name)
            if not waiting[next_task.name]:
                ready.append(next_task)

    while ready or running or blamed:
        while ready and len(running) < window:
            start(ready.popleft())
        if not running:
            task = blamed.popleft()
            for part in split(task):
                start(part)
                future = next(queue)
                if not _collect(future, outcome):
                    outcome.failures.append(as_failure(part))
                del running[future]
            finish(task)
            continue
        future = next(queue)
        task = running.pop(future)
        if is_lost():
            raise LeaseError(f"a later run has taken over {root}; this one stops")
        if _collect(future, outcome):
            finish(task)
        else:
            blamed.append(task)
    return outcome


def split(task: Task) -> list[Task]:
    """The parts of a task that can fail for themselves: its blocks, pairs or cells."""
    items: list[tuple[Any, ...]]
    if task.kind == "fit":
        numbers, thresholds = task.items
        items = [((number,), thresholds) for number in numbers]
    elif task.kind == "count":
        items = [(replace(task.items[0], pairs=(number,)),) for number in task.items[0].pairs]
    else:
        items = [(item,) for item in task.items]
    return [replace(task, name=f"{task.name}.{i}", items=some) for i, some in enumerate(items)]


def _collect(future: Future[Any], outcome: Outcome) -> bool:
    """Add what a task reports to the outcome; False when it could not, because its worker died each time."""
    from distributed import KilledWorker

    error = future.exception()
    if isinstance(error, KilledWorker):
        future.release()
        return False
    if error is not None:
        raise error
    report: Report = future.result()
    outcome.failures += report.failures
    outcome.seconds += report.seconds
    future.release()
    return True


def run_batches(
    client: Client, function: Callable[..., Any], batches: Sequence[tuple[Any, ...]], name: str
) -> list[Any]:
    """Results of function(*batch) for all batches, in their order, through a bounded window."""
    from distributed import KilledWorker, as_completed

    results: list[Any] = [None] * len(batches)
    window = max(_MINIMUM_WINDOW, _WINDOW * sum(client.nthreads().values()))
    position: dict[Any, int] = {}
    queue = as_completed(loop=client.loop)
    following, run = 0, uuid4().hex
    while position or following < len(batches):
        while following < len(batches) and len(position) < window:
            future = submit(client, function, *batches[following], key=f"hpcdp-{run}-{name}-{following}")
            position[future] = following
            queue.add(future)
            following += 1
        future = next(queue)
        try:
            results[position.pop(future)] = future.result()
        except KilledWorker:
            raise StoreError(
                f"the task {name} ended its worker process each time it ran; is there enough memory?"
            ) from None
        future.release()
    return results
