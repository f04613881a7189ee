"""Where tasks run: worker processes of this machine, or a running scheduler's address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from hpcdp._signals import deferred, ignored
from hpcdp.errors import StoreError, StudyError

if TYPE_CHECKING:
    from distributed import Client

_ADDRESS = re.compile(r"^[a-z]+://")

WORKER_SETTINGS: Mapping[str, Any] = {
    "distributed.scheduler.allowed-failures": 2,  # a task that kills its worker must not take every worker
    "distributed.worker.memory.target": False,  # results are small; spilling would only slow a full machine
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.admin.large-graph-warning-threshold": "100MB",
}


def default_workers() -> int:
    """One worker process a usable core."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_place(cluster: str) -> None:
    """Refuse what names no place to run, before anything is written."""
    if cluster != "local" and not _ADDRESS.match(cluster):
        raise StudyError(
            f'--cluster: "local" or a scheduler address such as tcp://host:8786; given: {cluster!r} '
            "(profiles of batch systems come in a later version)"
        )


@contextmanager
def connect(cluster: str, workers: int | None) -> Iterator[Client]:
    """A client of the named cluster: "local" (processes of one thread) or a scheduler's address like tcp://host:8786.

    Worker processes hold one thread each: mechanisms are Python callables that hold the GIL, and the kernels are sized
    for one core's cache.
    """
    if cluster == "local":
        with _local(workers or default_workers()) as client:
            yield client
        return
    check_place(cluster)
    from distributed import Client

    try:
        client = Client(cluster, timeout="20s", set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise StoreError(f"no Dask scheduler answers at {cluster}: {error}") from error
    with client:
        yield client


@contextmanager
def _local(workers: int) -> Iterator[Client]:
    import dask
    from distributed import Client, LocalCluster

    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    threads = dict.fromkeys(names, "1")
    settings = {
        **WORKER_SETTINGS,
        "distributed.nanny.pre-spawn-environ": threads,
        "distributed.worker.multiprocessing-method": "spawn",
    }
    with dask.config.set(settings):
        ending = ExitStack()
        try:
            with deferred():
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    memory_limit=0,
                    silence_logs="CRITICAL",
                )
                ending.enter_context(cluster)
                client = ending.enter_context(Client(cluster, set_as_default=False))
            yield client
        finally:
            with ignored():
                ending.close()
