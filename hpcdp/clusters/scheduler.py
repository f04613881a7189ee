"""Scheduler and workers of the clusters that hpcdp starts itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import dask
from distributed import Client, Scheduler, SpecCluster, Worker

from hpcdp._base.signals import ignored
from hpcdp.clusters.certificates import security_in_memory
from hpcdp.clusters.remote import OnDask, open_on_dask
from hpcdp.clusters.scratch import private_folder

SETTINGS: dict[str, Any] = {
    "distributed.scheduler.allowed-failures": 1 << 30,  # a lost node is nobody's fault: node executors count deaths
    "distributed.scheduler.worker-saturation": 1.0,  # no more tasks on a worker than it has threads
    "distributed.admin.large-graph-warning-threshold": "100MB",
    "distributed.worker.memory.target": False,  # results are small; spilling would only slow a full machine
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    # Dask looks after itself 50 to 100 times a second in every process; idle ones took 2 to 3 % of a core each.
    "distributed.worker.profile.interval": "100ms",
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
}
"""What Dask's configuration is while such a cluster starts, on every machine."""


@contextmanager
def own_cluster() -> Iterator[ExitStack]:
    """Start a cluster within; it ends with the context, whatever signals come. Dask's folder, first in `sys.path`, is our own."""
    with dask.config.set({**SETTINGS, "temporary-directory": str(private_folder())}):
        ending = ExitStack()
        try:
            yield ending
        finally:
            with ignored():
                ending.close()


class QuietWorker(Worker):
    """Listens for those with the run's certificate only: Dask's own also serves HTTP to everybody on the machine."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """No server."""


class QuietScheduler(Scheduler):
    """Serves HTTP only where a dashboard was asked for."""

    def start_http_server(self, routes: Any, dashboard_address: Any, *others: Any, **options: Any) -> None:
        """The dashboard, which asks nobody who he is, where it was asked for; else no server, where Dask starts one."""
        if dashboard_address is not None:
            super().start_http_server(routes, dashboard_address, *others, **options)

    async def connected(self) -> dict[str, int]:
        """Workers by name, with how many tasks each has."""
        return {str(ws.name): len(ws.processing) for ws in self.workers.values()}

    async def dismiss(self) -> None:
        """Ask all workers to leave."""
        await self.retire_workers(workers=list(self.workers), close_workers=True, stimulus_id="hpcdp-dismiss")


@contextmanager
def open_local(workers: int, dashboard: bool = False) -> Iterator[OnDask]:
    """A scheduler and one worker of so many processes here, over TLS, as others reach its port. dashboard: open to all here."""
    own = {"host": "127.0.0.1", "protocol": "tls://", "security": security_in_memory()}
    scheduler = {**own, "port": 0, "dashboard_address": "127.0.0.1:0" if dashboard else None}
    worker = {**own, "nthreads": workers, "memory_limit": 0}
    with own_cluster() as ending:
        cluster = SpecCluster(
            workers={"here": {"cls": QuietWorker, "options": worker}},
            scheduler={"cls": QuietScheduler, "options": scheduler},
            security=own["security"],
            silence_logs="CRITICAL",
        )
        client = ending.enter_context(Client(ending.enter_context(cluster), set_as_default=False))
        yield ending.enter_context(open_on_dask(client, OnDask.patience))
