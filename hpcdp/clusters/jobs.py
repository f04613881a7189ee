"""Workers of a profile: SLURM jobs that come and go, or steps of the job of several nodes that this process runs in.

This process holds the scheduler. dask-jobqueue writes the scripts of jobs and steps; a fleet decides which there are.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import dask
from distributed import Client, SpecCluster

from hpcdp._base.files import make_folders, open_itself
from hpcdp.clusters import slurm
from hpcdp.clusters.certificates import Certificate
from hpcdp.clusters.fleet import Fleet, Unit, Units
from hpcdp.clusters.profile import Profile
from hpcdp.clusters.remote import OnDask, open_on_dask
from hpcdp.clusters.scheduler import QuietScheduler, own_cluster
from hpcdp.clusters.slurm import JobFolder
from hpcdp.clusters.worker import protocol, worker_script

_PATIENCE = 15.0  # seconds between SIGTERM and SIGKILL for a step
_MEMORY = 0.95  # of a job's memory that its tasks may take: beyond, a batch system kills all of the job


class JobUnits(Units):
    """Jobs."""

    word = "job"

    def _start(self, unit: Unit, script: str) -> None:
        unit.id = ""
        try:
            unit.id = slurm.submit(given=script)
        except slurm.SlurmError as error:
            unit.refuse(str(error).removeprefix("sbatch: "))

    def look(self, units: Sequence[Unit]) -> None:
        """What squeue says; a job that it does not know any more is over."""
        if not units:
            return
        known = {job.id: job for job in slurm.jobs_named([self._folder.name])}
        for unit in units:
            job = known.get(unit.id)
            if job is None:
                unit.state = "GONE"
                continue
            unit.state, unit.seconds, unit.node = job.state, max(unit.seconds, job.seconds), job.node
            unit.reason, unit.cpus = job.reason, job.cpus or unit.cpus

    def end(self, units: Sequence[Unit]) -> None:
        """Cancel what is active, in one command."""
        slurm.cancel(unit.id for unit in units if unit.is_active)


class StepUnits(Units):
    """Job steps, one a node, each by an srun of its own: when one ends, the others and the allocation go on."""

    word = "step"

    def __init__(self, cluster: SpecCluster, cores: int, folder: JobFolder, script: Callable[[str], str]) -> None:
        super().__init__(cluster, cores, folder, script)
        self._steps: dict[str, tuple[subprocess.Popen[bytes], float]] = {}

    def _start(self, unit: Unit, script: str) -> None:
        command = ["srun", "--nodes=1", "--ntasks=1", f"--cpus-per-task={unit.cpus}", "--mem=0", "--exact"]
        command += ["--kill-on-bad-exit=0", f"--job-name={self._folder.name}", "--unbuffered", "bash", "-c", script]
        log = self._folder.logs / f"worker-{os.environ['SLURM_JOB_ID']}-{unit.id}.log"
        try:
            with open_itself(log, "ab") as out:
                step = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        except OSError as error:
            unit.refuse(f"cannot run srun: {error.strerror or error}")
        else:
            unit.state = "RUNNING"
            self._steps[unit.name] = (step, time.monotonic())

    def look(self, units: Sequence[Unit]) -> None:
        """Whether their sruns still run."""
        for unit in units:
            step, begin = self._steps[unit.name]
            code = step.poll()
            if code is None:
                unit.seconds = int(time.monotonic() - begin)
            else:
                unit.state, unit.reason = ("COMPLETED" if code == 0 else "FAILED"), f"exit code {code}"

    def end(self, units: Sequence[Unit]) -> None:
        """SIGTERM to the sruns, which pass it on."""
        steps = [self._steps.pop(unit.name)[0] for unit in units if unit.name in self._steps]
        for step in steps:
            if step.poll() is None:
                step.terminate()
        for step in steps:
            try:
                step.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                step.kill()
                step.wait()


def cancel_orphans(name: str, note: Callable[[str], None]) -> None:
    """Cancel worker jobs that still wait for a driver that was killed; those that run leave by themselves."""
    try:
        orphans = [job.id for job in slurm.jobs_named([name]) if job.state == "PENDING"]
        slurm.cancel(orphans)
    except slurm.SlurmError as error:
        note(f"{error}; jobs of an earlier run may still wait")
        return
    if orphans:
        note(f"cancelled {len(orphans)} waiting jobs of an earlier run: {', '.join(orphans)}")


@contextmanager
def open_jobs(profile: Profile, folder: JobFolder, generation: int, note: Callable[[str], None]) -> Iterator[OnDask]:
    """A scheduler in this process, and jobs of workers, or a step on every node of this job; all of them end with the context."""
    is_allocation, site = profile.cluster.driver == "allocation", profile.cluster
    Certificate.remove_up_to(folder.keys, generation)
    with ExitStack() as last:
        certificate = Certificate.create(folder.key(generation)) if site.tls else None
        if certificate:
            last.callback(certificate.remove)
        left = slurm.seconds_left(os.environ["SLURM_JOB_ID"]) if is_allocation else None
        end = time.time() + left if left else None
        security = certificate.security() if certificate else None
        options = {
            "dashboard_address": site.dashboard_address,
            "port": site.port,
            "interface": site.interface or dask.config.get("jobqueue.slurm.interface", None),
            "protocol": protocol(certificate),
            "security": security,
        }
        make_folders(folder.root.parent, folder.logs)
        if not is_allocation:
            cancel_orphans(folder.name, note)
        ending = last.enter_context(own_cluster())
        cluster: Any = SpecCluster(
            name=folder.name,
            scheduler={"cls": QuietScheduler, "options": options},
            security=security,
            silence_logs="CRITICAL",
        )
        client = ending.enter_context(Client(ending.enter_context(cluster), set_as_default=False))
        script = partial(worker_script, cluster.scheduler.address, profile, folder, certificate, end)
        units = (StepUnits if is_allocation else JobUnits)(cluster, profile.worker.cores, folder, script)
        fleet = Fleet(units, profile.jobs_for, site.poll, note)
        ending.callback(fleet.close)
        fleet.start()
        memory = int(_MEMORY * profile.worker.memory)
        yield ending.enter_context(open_on_dask(client, site.no_worker_timeout, fleet, memory))
