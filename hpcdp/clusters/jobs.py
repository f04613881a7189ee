"""The elastic place: this process holds the scheduler, and workers are SLURM jobs through dask-jobqueue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dask_jobqueue import SLURMCluster
from distributed.deploy.cluster import Cluster

from hpcdp._base.files import make_folders, replaced
from hpcdp.clusters import slurm
from hpcdp.clusters.certificates import Certificate
from hpcdp.clusters.fleet import Unit, Units
from hpcdp.clusters.profile import Profile
from hpcdp.clusters.remote import OnDask, open_fleet
from hpcdp.clusters.scheduler import QuietScheduler, own_cluster
from hpcdp.clusters.slurm import JobFolder
from hpcdp.clusters.worker import WorkerJob, job_arguments


class JobCluster(SLURMCluster):
    """dask-jobqueue's cluster, with a fleet that decides which jobs there are."""

    job_cls = WorkerJob

    def _update_worker_status(self, op: str, msg: Any) -> None:
        """A worker came or went: no reason to end its job, as Dask would; the fleet asks SLURM."""
        Cluster._update_worker_status(self, op, msg)

    def _get_worker_security(self, security: Any) -> None:
        """Workers find the certificate through their environment; a path in a command would need quoting."""

    def new_worker_spec(self) -> dict[str, Any]:
        """A job whose name was never used: a worker of a lost job may still be connected under its own."""
        self._i += 1
        return {self._new_worker_name(self._i): self.new_spec}

    async def open_jobs(self, count: int) -> dict[str, WorkerJob]:
        """Submit jobs; by name."""
        specs: dict[str, Any] = {}
        for _ in range(count):
            specs.update(self.new_worker_spec())
        self.worker_spec.update(specs)
        await self._correct_state()
        return {name: self.workers[name] for name in specs}

    async def forget_jobs(self, names: Sequence[str]) -> None:
        """Take jobs that are over out of the cluster."""
        for name in names:
            self.worker_spec.pop(name, None)
            job = self.workers.pop(name, None)
            if job is not None:
                job.status = type(job.status).closed


class JobUnits(Units):
    """Jobs of a JobCluster, as a fleet handles them."""

    word = "job"

    def __init__(self, cluster: JobCluster, cores: int, job_name: str) -> None:
        super().__init__(cluster)
        self._cores, self._job_name = cores, job_name

    def start(self, count: int) -> list[Unit]:
        """Submit jobs."""
        units = []
        for name, job in self._cluster.sync(self._cluster.open_jobs, count).items():
            unit = Unit(name, job.job_id or "", cores=self._cores)
            if job.refusal is not None:
                unit.refuse(job.refusal)
                self._cluster.sync(self._cluster.forget_jobs, [name])
            units.append(unit)
        return units

    def look(self, units: Sequence[Unit]) -> None:
        """What squeue says; a job that it does not know any more is over."""
        if not units:
            return
        known = {job.id: job for job in slurm.jobs_named([self._job_name])}
        for unit in units:
            job = known.get(unit.id)
            if job is None:
                unit.state = "GONE"
                continue
            unit.state, unit.seconds, unit.node = job.state, max(unit.seconds, job.seconds), job.node
            unit.reason, unit.cores = job.reason, job.cpus or unit.cores

    def end(self, units: Sequence[Unit]) -> None:
        """Cancel what is active, in one command, and forget all."""
        self._cluster.sync(self._cluster.forget_jobs, [unit.name for unit in units])
        slurm.cancel(unit.id for unit in units if unit.is_active)


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
def open_jobs(
    profile: Profile,
    folder: JobFolder,
    certificate: Certificate | None,
    note: Callable[[str], None],
) -> Iterator[OnDask]:
    """A scheduler in this process, and jobs of workers; all of them end with the context."""
    arguments = job_arguments(profile, folder, certificate)
    interface = arguments.pop("interface")
    options = {"dashboard_address": profile.cluster.dashboard_address, "port": profile.cluster.port}
    make_folders(folder.root.parent, folder.logs)
    cancel_orphans(folder.name, note)
    with own_cluster() as ending:
        cluster = JobCluster(
            name=folder.name,
            scheduler_cls=QuietScheduler,
            scheduler_options=options,
            interface=interface,
            security=certificate.security() if certificate else None,
            silence_logs="CRITICAL",
            **arguments,
        )
        ending.enter_context(cluster)
        with replaced(folder.worker_script) as new:
            new.write_text(cluster.job_script())
        units = JobUnits(cluster, profile.worker.cores, folder.name)
        yield open_fleet(ending, cluster, units, profile, note)
