"""Ends a run: its driver first, in order, then whatever jobs are left. The store stays."""

from __future__ import annotations

import os
import signal
import time

from hpcdp.clusters import slurm
from hpcdp.clusters.folder import JobFolder, driver_name
from hpcdp.clusters.submit import active_jobs
from hpcdp.errors import StoreError
from hpcdp.store.layout import Layout
from hpcdp.store.lease import holder, host_name

_PATIENCE = 60.0  # seconds for a driver to end in order


def cancel(layout: Layout, folder: JobFolder) -> list[str]:
    """End the driver and all jobs of a store; lines that say what was ended. StoreError when SLURM does not answer."""
    said = []
    drivers = active_jobs([driver_name(folder.name)])
    owner = holder(layout)
    try:
        slurm.cancel(job.id for job in drivers if job.state != "RUNNING")
        running = [job.id for job in drivers if job.state == "RUNNING"]
        slurm.cancel(running, "--batch", "--signal=TERM")  # of the script alone: it drains, as scancel would not let it
    except slurm.SlurmError as error:
        raise StoreError(f"SLURM does not answer: {error}") from None
    said += [f"driver job {job.id}: asked to end (it was {job.state.lower()})" for job in drivers]
    if owner is not None and not drivers:
        if layout.lease_file(owner["generation"]).stat().st_uid != os.geteuid():
            raise StoreError(f"{layout.root} is held by a run of another user, who alone can end it")
        if owner["host"] == host_name() and isinstance(owner["process"], int):
            os.kill(owner["process"], signal.SIGTERM)
            said.append(f"driver process {owner['process']}: asked to end")
        else:
            said.append(
                f"the driver is process {owner['process']} on {owner['host']}: end it there (kill {owner['process']})"
            )
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and holder(layout) is not None:
        time.sleep(0.5)
    left = active_jobs([driver_name(folder.name), folder.name])
    slurm.cancel(job.id for job in left)
    workers = [job for job in left if job.name == folder.name]
    if workers:
        said.append(f"{len(workers)} worker job{'s' if len(workers) > 1 else ''}: asked to end")
    return said or ["no driver and no job of this store runs"]
