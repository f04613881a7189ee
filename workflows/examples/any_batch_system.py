"""Run a study on jobs of any batch system that dask-jobqueue knows: python any_batch_system.py PBSCluster STUDY STORE"""

import os
import shlex
import sys

import dask
import dask_jobqueue
from distributed import Client

import hpcdp
from hpcdp.clusters.scratch import private_folder, private_lines

HOURS, DRAIN, JOBS = 4, 60, 2  # walltime; seconds before its end in which workers take no new task; how many jobs

SITE = {
    "cores": 2,  # of a job
    "processes": 1,  # one worker a job, which starts a process for each core
    "memory": "4GB",  # of a job
    "walltime": f"{HOURS:02}:00:00",
    # "queue": "batch", "account": "p1234", "interface": "ib0",
    # "job_extra_directives": ["-l place=scatter"],  # as your batch system writes them
}

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
PROLOGUE = [
    # "module load python/3.11",
    *(f"export {name}=1" for name in THREADS),
    *private_lines("${TMPDIR:-/tmp}"),  # HPCDP_SCRATCH, for what is loaded and run: a folder that is closed to others
    f"export HPCDP_JOB_END=$(( $(date +%s) + {HOURS} * 3600 )) HPCDP_DRAIN={DRAIN}",
]

WORKER = "hpcdp.clusters.scheduler.QuietWorker"  # Dask's own also serves HTTP to everybody who reaches the node

SETTINGS = {
    "temporary-directory": str(private_folder()),  # this process finds modules there, too
    "distributed.scheduler.allowed-failures": 1 << 30,  # no task is blamed for a lost node
    "distributed.scheduler.worker-saturation": 1.0,  # no more tasks on a worker than it has threads
}


def main(kind: str, study: str, store: str) -> None:
    """Open a cluster, run, close it."""
    with (
        dask.config.set(SETTINGS),
        getattr(dask_jobqueue, kind)(
            **SITE,
            python=shlex.quote(sys.executable),
            job_script_prologue=PROLOGUE,
            worker_extra_args=["--preload", "hpcdp.clusters.preload", "--worker-class", WORKER],
            local_directory='"$HPCDP_SCRATCH"',
            scheduler_options={"dashboard_address": "127.0.0.1:0"},
            security=True,  # TLS with a certificate of this run only
            protocol="tls://",
            shared_temp_directory=os.getcwd(),  # where the workers find the certificate; a path without spaces
        ) as cluster,
        Client(cluster) as client,
    ):
        cluster.scale(jobs=JOBS)
        result = hpcdp.run(study, store, client=client)
    print(result.complete, [round(row["lower"], 4) for row in result.spectrum()])


if __name__ == "__main__":  # worker processes import this file
    main(*sys.argv[1:])
