"""The driver as a job: its script, its submission, the chain of jobs that goes on when a walltime ends, and its end."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from pathlib import Path

from hpcdp._base.files import make_folders, own_files, replaced
from hpcdp.clusters import slurm
from hpcdp.clusters.profile import Profile
from hpcdp.clusters.slurm import JobFolder, driver_name
from hpcdp.clusters.worker import log_directives
from hpcdp.errors import LeaseError, StoreError
from hpcdp.store.layout import Layout
from hpcdp.store.lease import holder, host_name, read_leases

_VAIN = 3  # jobs in a row that did nothing, after which a chain ends


def driver_script(profile: Profile, folder: JobFolder, store: Path, trust_code: bool = False) -> str:
    """The driver's job script: elastic, a small job that submits others; an allocation, all nodes in one job."""
    worker, driver, site = profile.worker, profile.driver, profile.cluster
    if site.driver == "allocation":
        size = [
            f"--nodes={profile.size.most}",
            "--ntasks-per-node=1",
            f"--cpus-per-task={worker.cores}",
            f"--mem={-(-worker.memory >> 20)}M",
        ]
        directives = worker.directives
        queue, account = worker.queue, worker.account
    else:
        size = ["--ntasks=1", f"--cpus-per-task={driver.cores}", f"--mem={-(-driver.memory >> 20)}M"]
        directives = driver.directives
        queue, account = driver.queue or worker.queue, driver.account or worker.account
    head = [
        f"--job-name={driver_name(folder.name)}",
        *log_directives(folder, "driver-%j.log"),
        *([f"--partition={queue}"] if queue else []),
        *([f"--account={account}"] if account else []),
        *size,
        f"--time={slurm.clock(profile.driver_walltime)}",
        f"--signal=B:USR1@{site.drain}",
        "--requeue" if driver.resubmit else "--no-requeue",
        *directives,
    ]
    python = site.python or shlex.quote(sys.executable)
    resume = f"resume {shlex.quote(str(store))} --cluster {shlex.quote(str(folder.profile))}"
    resume += " --trust-code" if trust_code else ""
    lines = ["#!/usr/bin/env bash", *(f"#SBATCH {item}" for item in head), *site.prologue]
    # exec: the signal that SLURM sends to the script reaches the driver itself
    lines += [f"exec {python} -m hpcdp {resume}" + (" --chained" if driver.resubmit else "")]
    return "\n".join(lines) + "\n"


@own_files()  # SLURM hands the mask to the job
def submit_driver(profile: Profile, text: str, folder: JobFolder, store: Path, trust_code: bool = False) -> str:
    """Write the script and the profile, its text, into the store and submit the driver; its job id."""
    make_folders(folder.root.parent, folder.logs)
    for path, words in {
        folder.profile: text,
        folder.driver_script: driver_script(profile, folder, store, trust_code),
    }.items():
        with replaced(path) as new:
            new.write_text(words, encoding="utf-8")
    try:
        return slurm.submit(str(folder.driver_script))
    except slurm.SlurmError as error:
        raise StoreError(f"the driver's job was refused: {error}; its script is {folder.driver_script}") from None


def refuse_second_driver(folder: JobFolder) -> None:
    """LeaseError when a driver's job of this store runs or waits."""
    for job in active_jobs([driver_name(folder.name)]):
        raise LeaseError(f"job {job.id} runs this store already ({job.state.lower()}); see hpcdp status, hpcdp cancel")


def active_jobs(names: list[str]) -> list[slurm.Job]:
    """Jobs of these names that run or wait; StoreError when SLURM does not answer."""
    try:
        return [job for job in slurm.jobs_named(names) if job.is_active]
    except slurm.SlurmError as error:
        raise StoreError(f"SLURM does not answer: {error}") from None


def submit_next(layout: Layout, folder: JobFolder) -> str:
    """Submit the next job of the chain, to begin when this one has ended; StoreError when the chain should end."""
    runs = [lease.get("news") or {} for lease in read_leases(layout)[-_VAIN:]]
    if len(runs) == _VAIN and all(not news.get("done") for news in runs):
        raise StoreError(f"the last {_VAIN} jobs did nothing: no further one is submitted")
    after = [f"--dependency=afterany:{os.environ['SLURM_JOB_ID']}"] if "SLURM_JOB_ID" in os.environ else []
    try:
        return slurm.submit(*after, str(folder.driver_script))
    except slurm.SlurmError as error:
        again = shlex.join(["sbatch", str(folder.driver_script)])
        raise StoreError(f"the next job was refused: {error}; go on with: {again}") from None


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
