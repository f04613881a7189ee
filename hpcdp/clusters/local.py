"""Worker processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hpcdp._signals import deferred, ignored
from hpcdp._threads import VARIABLES
from hpcdp.clusters._processes import Processes
from hpcdp.clusters._serving import Serving
from hpcdp.clusters.place import Place

_PATIENCE = 120.0  # seconds; processes of this machine start within a few
_THREADS = dict.fromkeys(VARIABLES, "1")


def default_workers() -> int:
    """One worker process a usable core."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def open_local(workers: int) -> Iterator[Place]:
    """Processes of one thread each: mechanisms hold the GIL, and the kernels are sized for one core's cache."""
    import dask
    from distributed import Client, SpecCluster

    from hpcdp.clusters.scheduler import SETTINGS, ChunkScheduler

    scheduler = {"host": "127.0.0.1", "port": 0, "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}

    with dask.config.set(SETTINGS):
        ending = ExitStack()
        try:
            with deferred():
                cluster = SpecCluster(
                    name="hpcdp",
                    scheduler={"cls": ChunkScheduler, "options": scheduler},
                    silence_logs="CRITICAL",
                )
                address, config = cluster.scheduler_address, dask.config.config
                processes = Processes(workers, lambda name: Serving(config, _worker(address, name)), _THREADS)
                ending.callback(processes.end)
                ending.callback(cluster.close)  # which asks the workers to leave
                client = ending.enter_context(Client(cluster, set_as_default=False))
                processes.start()
                ending.callback(processes.stop)
            yield Place(client, _PATIENCE, blames_exactly=True)
        finally:
            with ignored():
                ending.close()


def _worker(address: str, name: str) -> dict[str, Any]:
    """Keyword arguments of Dask's Worker."""
    return {
        "scheduler_ip": address,
        "name": name,
        "host": "127.0.0.1",
        "protocol": "tcp://",
        "nthreads": 1,
        "memory_limit": 0,
        "dashboard": False,
    }
