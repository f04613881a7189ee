"""Worker processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hpcdp._signals import deferred, ignored
from hpcdp.clusters._spawn import without_main
from hpcdp.clusters.place import Place

_PATIENCE = 120.0  # seconds; processes of this machine start within a few


def default_workers() -> int:
    """One worker process a usable core."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def open_local(workers: int) -> Iterator[Place]:
    """Processes of one thread each: mechanisms hold the GIL, and the kernels are sized for one core's cache."""
    import dask
    from distributed import Client, Nanny, SpecCluster

    from hpcdp.clusters.scheduler import SETTINGS, ChunkScheduler

    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    settings = {
        **SETTINGS,
        "distributed.nanny.pre-spawn-environ": dict.fromkeys(names, "1"),
        "distributed.worker.multiprocessing-method": "spawn",
    }
    scheduler = {"host": "127.0.0.1", "port": 0, "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
    nanny = {
        "host": "127.0.0.1",
        "protocol": "tcp://",
        "nthreads": 1,
        "memory_limit": 0,
        "dashboard": False,
        "silence_logs": "CRITICAL",
        "preload": ["hpcdp.clusters._quiet"],
    }
    with dask.config.set(settings), without_main():
        ending = ExitStack()
        try:
            with deferred():
                cluster = SpecCluster(
                    name="hpcdp",
                    scheduler={"cls": ChunkScheduler, "options": scheduler},
                    workers={i: {"cls": Nanny, "options": nanny} for i in range(workers)},
                    silence_logs="CRITICAL",
                )
                ending.enter_context(cluster)
                client = ending.enter_context(Client(cluster, set_as_default=False))
            yield Place(client, _PATIENCE, blames_exactly=True)
        finally:
            with ignored():
                ending.close()
