"""Worker processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hpcdp._base.signals import deferred, ignored
from hpcdp.clusters.place import DaskPlace

_PATIENCE = 120.0  # seconds; processes of this machine start within a few


def default_workers() -> int:
    """One worker process a usable core."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def open_local(workers: int, dashboard: bool = False, modules: tuple[str, ...] = ()) -> Iterator[DaskPlace]:
    """Processes of one thread each: mechanisms hold the GIL, and the kernels are sized for one core's cache.

    Other users of the machine reach their ports, so they talk over TLS. dashboard: one that anybody here can look at.
    modules: what tasks need, loaded once for all workers.
    """
    import dask
    from distributed import Client, SpecCluster

    from hpcdp.clusters._processes import Processes, refuse_few_files_for  # which load all that workers need
    from hpcdp.clusters._serving import DaskServing
    from hpcdp.clusters.certificates import security_in_memory
    from hpcdp.clusters.scheduler import ChunkScheduler, dask_settings

    refuse_few_files_for(workers, is_scheduled=True)
    security = security_in_memory()
    own = {"host": "127.0.0.1", "protocol": "tls://", "security": security}
    scheduler = {**own, "port": 0, "dashboard_address": "127.0.0.1:0" if dashboard else None}

    with dask.config.set(dask_settings()):
        ending = ExitStack()
        try:
            with deferred():
                cluster = SpecCluster(
                    name="hpcdp",
                    scheduler={"cls": ChunkScheduler, "options": scheduler},
                    security=security,
                    silence_logs="CRITICAL",
                )
                address, config = cluster.scheduler_address, dask.config.config
                needed = (*modules, "hpcdp.clusters.scheduler")
                serving = DaskServing("worker", needed, config=config, worker={**own, **_worker(address)})
                processes = Processes(workers, serving)
                ending.callback(processes.end)
                ending.callback(cluster.close)  # which asks the workers to leave
                client = ending.enter_context(Client(cluster, set_as_default=False))
                processes.start()
                ending.callback(processes.stop)
            yield DaskPlace(client, _PATIENCE, blames_exactly=True, drawing=processes.drawing)
        finally:
            with ignored():
                ending.close()


def _worker(address: str) -> dict[str, Any]:
    """Keyword arguments of Dask's Worker, but for its name and where it listens."""
    return {
        "scheduler_ip": address,
        "nthreads": 1,
        "memory_limit": 0,
    }
