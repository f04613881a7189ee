"""A Dask scheduler and one worker of it in this process, for its dashboard; the work is done by child processes all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hpcdp.clusters.certificates import security_in_memory
from hpcdp.clusters.remote import OnDask, open_on_dask
from hpcdp.clusters.scheduler import QuietScheduler, QuietWorker, own_cluster


@contextmanager
def open_local(workers: int, dashboard: bool = False) -> Iterator[OnDask]:
    """So many processes. Other users of the machine reach the scheduler's port, so it talks over TLS.

    dashboard: one that anybody here can look at.
    """
    from distributed import Client, SpecCluster

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
