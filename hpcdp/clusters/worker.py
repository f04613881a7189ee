"""What runs in a worker's job: dask-jobqueue's job script, with what hpcdp's workers need around the command."""

from __future__ import annotations

import shlex
import sys

from dask_jobqueue.slurm import SLURMJob

from hpcdp._base.threads import VARIABLES
from hpcdp.clusters.certificates import Certificate
from hpcdp.clusters.profile import Profile
from hpcdp.clusters.scheduler import SETTINGS
from hpcdp.clusters.scratch import private_lines
from hpcdp.clusters.slurm import JobFolder, clock

_DEATH_TIMEOUT = 60  # seconds after which a worker without a scheduler leaves


def protocol(certificate: Certificate | None) -> str:
    """Of Dask's addresses."""
    return "tls://" if certificate else "tcp://"


def worker_script(
    address: str, profile: Profile, folder: JobFolder, certificate: Certificate | None, end: float | None, name: str
) -> str:
    """The script of the job of a worker. end: when its job ends (seconds since 1970), if that is not a walltime away."""
    site, worker = profile.cluster, profile.worker
    lifetime = worker.walltime - site.drain // 8  # after the preload's last moment: Dask would cut a task short
    python = site.python or shlex.quote(sys.executable)
    extra = ["--lifetime", f"{lifetime}s", "--preload", "hpcdp.clusters.preload", "--no-dashboard"]
    extra += ["--worker-class", "hpcdp.clusters.scheduler.QuietWorker"]
    arguments = {
        "cores": worker.slots,
        "processes": 1,
        "nanny": False,
        "memory": f"{worker.memory}B",
        "job_cpu": worker.cores,
        "job_mem": f"{-(-worker.memory >> 20)}M",
        "walltime": clock(worker.walltime),
        "queue": worker.queue,
        "account": worker.account,
        "interface": site.interface,
        "protocol": protocol(certificate),
        "python": python,
        "job_name": folder.name,
        "death_timeout": str(_DEATH_TIMEOUT),
        "local_directory": '"$HPCDP_SCRATCH"',
        "job_extra_directives": [*log_directives(folder, "worker-%j.log"), "--no-requeue", *worker.directives],
        "job_script_prologue": [*site.prologue, *worker_exports(profile, certificate, end)],
        "worker_extra_args": extra,
    }
    return str(SLURMJob(address, name=name, **arguments).job_script())


def log_directives(folder: JobFolder, name: str) -> list[str]:
    """Directives that append what a job prints to a file of the store; jobs killed early leave their reason there."""
    path = str(folder.logs.absolute()).replace("%", "%%")
    return [f'--output="{path}/{name}"', "--open-mode=append"]


def worker_exports(profile: Profile, certificate: Certificate | None, end: float | None) -> list[str]:
    """Lines of shell that set what workers read from their environment."""
    threads = str(profile.worker.library_threads)
    values = dict.fromkeys(VARIABLES, threads)
    values |= {"ZARR_ASYNC__CONCURRENCY": "2", "ZARR_THREADING__MAX_WORKERS": "1"}
    values |= {"DASK_LOGGING__DISTRIBUTED": "warning"}  # else a log has some twenty lines a worker that tell nothing
    values |= {
        "DASK_" + key.replace(".", "__").replace("-", "_").upper(): str(value)
        for key, value in SETTINGS.items()
        if key.startswith(("distributed.worker.", "distributed.admin."))
    }
    values |= certificate.environment() if certificate else {}
    return [
        *private_lines(profile.worker.scratch),
        "export HPCDP_JOB_END=" + (f"{end:.0f}" if end else f"$(( $(date +%s) + {profile.worker.walltime} ))"),
        f"export HPCDP_DRAIN={profile.cluster.drain}",
        *(f"export {name}={shlex.quote(value)}" for name, value in values.items()),
    ]
