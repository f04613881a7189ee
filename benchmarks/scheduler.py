"""How many tasks one scheduler sustains, and how busy it keeps nodes of 128 cores: the real graph, through the real engine.

Nodes are simulated: Dask workers of 128 slots, all in one process of their own, whose tasks wait for a timer and compute nothing.
Scheduler, client and engine run in this process, as in a run on a cluster. `fleet` simulates 256 nodes, for some nine minutes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dask
import numpy as np
from distributed import Client, SpecCluster, Worker, WorkerPlugin

from benchmarks.studies import laplace_study
from hpcdp._base.node import ProcessDied
from hpcdp.clusters.remote import OnDask
from hpcdp.engine.execute import execute
from hpcdp.engine.index import Index
from hpcdp.engine.method import method_of
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.engine.sampling import task_seconds
from hpcdp.engine.stopping import Stop
from hpcdp.engine.task import Costs, Task
from hpcdp.study.resolving import resolve

_CHUNK = 64
_CORES = 128
_HOST = "127.0.0.1"


def pretend(seconds: float, _root: str, _version: int, _generation: int, task: Task) -> Report:
    """A task that computes nothing. seconds: that a node's timer lets it wait before."""
    return Report(task.name, seconds)


@dataclass
class Watch:
    """What the engine tells and asks; ended: when each task did."""

    stop: Stop = field(default_factory=Stop)
    ended: list[float] = field(default_factory=list)

    def done(self, task: Task, seconds: float) -> None:
        """Note the time."""
        self.ended.append(time.perf_counter())

    def note(self, text: str) -> None:
        """Print it: something is slow."""
        print(text, flush=True)

    def is_lost(self) -> bool:
        """There is no store."""
        return False

    def as_failure(self, task: Task, died: ProcessDied) -> Failure:
        """A process died."""
        raise died


def graph(tasks: int) -> list[Task]:
    """The tasks of a study whose test stage has so many chunks, each long enough to be a task of its own."""
    problem, _ = resolve(laplace_study("scheduler", 1024, tasks * _CHUNK, "none", chunk=_CHUNK))
    per_sample = 20.0 / (2 * _CHUNK)
    found = method_of(problem).tasks(
        problem, Index(), Costs(draw=0.0, write=0.0, read=0.0, learn=1e-9, count=per_sample), 128
    )
    counts = [task for task in found if task.kind == "count"]
    assert len(counts) == tasks
    return found


class Timer(Executor):
    """Does each call in one thread once so many seconds are over, as a process would that takes so long."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._thread, self._loop = seconds, ThreadPoolExecutor(1), asyncio.get_running_loop()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """The future of a call."""
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()

        def done(call: Future[Any]) -> None:
            found.set_result(call.result())

        def begin() -> None:
            self._thread.submit(function, *arguments, **named).add_done_callback(done)

        self._loop.call_soon_threadsafe(self._loop.call_later, self._seconds, begin)
        return found


class Timers(WorkerPlugin):
    """Gives a worker a timer under the name at which a run looks for its node executor."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds = name, seconds

    async def setup(self, worker: Worker) -> None:
        """Start it."""
        worker.executors[self.name] = Timer(self.seconds)


async def serve(address: str, count: int) -> None:
    """Run so many workers until their scheduler leaves."""
    workers = [
        Worker(address, name=str(i), nthreads=_CORES, memory_limit=0, host=_HOST, dashboard=False, silence_logs=50)
        for i in range(count)
    ]
    await asyncio.gather(*workers)
    await asyncio.gather(*(worker.finished() for worker in workers))


@contextmanager
def simulated(count: int, seconds: float) -> Iterator[OnDask]:
    """An executor like that of a cluster, with so many simulated nodes, on which a task takes so long."""
    from hpcdp.clusters.scheduler import SETTINGS, QuietScheduler

    options = {"host": _HOST, "dashboard_address": f"{_HOST}:0"}
    with dask.config.set(SETTINGS):
        scheduler = {"cls": QuietScheduler, "options": options}
        with (
            SpecCluster(scheduler=scheduler, silence_logs="CRITICAL") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            command = [sys.executable, "-m", "benchmarks.scheduler", cluster.scheduler_address, str(count)]
            with subprocess.Popen(command) as workers:
                try:
                    client.wait_for_workers(count, timeout=120)
                    executor = OnDask(client, 60.0)
                    client.register_plugin(Timers(executor.name, seconds), name=executor.name)
                    yield executor
                finally:
                    workers.terminate()


def measure(workers: int, tasks: int, seconds: float) -> tuple[float, float, int]:
    """Seconds that so many tasks take on so many workers, of the clock and of this process's processors; its open files."""
    found = graph(tasks)
    with simulated(workers, seconds) as executor:
        executor.client.gather(executor.client.map(time.sleep, [0.1] * workers, pure=False))
        begin, busy = time.perf_counter(), time.process_time()
        execute(executor, "nowhere", 1, 1, found, Watch(), partial(pretend, seconds))
        return time.perf_counter() - begin, time.process_time() - busy, len(os.listdir("/dev/fd"))


def fleet(nodes: int = 256, waves: int = 3) -> dict[str, float]:
    """Print the useful share of many nodes' slots at the task length that a plan picks for them, and the open files.

    Time begins when the one task is done after which all others come. While slots fill and empty counts too in "whole";
    "steady" is the time from the second to the last wave.
    """
    slots = nodes * _CORES
    length = task_seconds(1e9, slots)  # however much work there is
    found, watch = graph(waves * slots), Watch()
    with simulated(nodes, length) as executor:
        execute(executor, "nowhere", 1, 1, found, watch, partial(pretend, length))
        files = len(os.listdir("/dev/fd"))
    ended = np.sort(watch.ended)[1:] - min(watch.ended)
    whole = len(ended) * length / (slots * ended[-1])
    share = ((ended > 2.0 * length) & (ended < waves * length)).sum() / (waves - 2.0) / slots
    print(
        f"{nodes} simulated nodes of {_CORES} slots, {len(ended):,} tasks of {length:.0f} s: {ended[-1]:.0f} s, useful "
        f"{whole:.1%} of the whole and {share:.1%} while all slots are in use; {files} open files"
    )
    return {"whole": whole, "steady": share, "files": files}


def main(small: bool = False) -> dict[str, float]:
    """Print tasks a second, and the efficiency for tasks of some lengths; returns both."""
    workers, many = 2, 1_000 if small else 20_000
    figures = {}
    took, busy, files = measure(workers, many // 4, 0.0)
    figures["tasks a second"], figures["tasks a busy second"] = many / 4 / took, many / 4 / busy
    figures["files"] = files
    print(
        f"{many // 4:,} empty tasks on {workers} simulated nodes of {_CORES} cores: {figures['tasks a second']:.0f} tasks a "
        f"second, {figures['tasks a busy second']:.0f} a second of the processor; {files} open files"
    )
    print(f"{'tasks':>7} {'s each':>7} {'ideal s':>8} {'s':>8} {'efficiency':>11}")
    for seconds, tasks in ((0.5, many // 4),) if small else ((0.5, many // 4), (1.0, many), (2.0, many // 4)):
        ideal = -(-tasks // (_CORES * workers)) * seconds
        took, _, _ = measure(workers, tasks, seconds)
        figures[f"{seconds:g} s"] = ideal / took
        print(f"{tasks:>7,} {seconds:>7g} {ideal:>8.1f} {took:>8.1f} {ideal / took:>10.1%}", flush=True)
    return figures


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
