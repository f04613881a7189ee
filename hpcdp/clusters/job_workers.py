"""The workers of a job: `python -m hpcdp.clusters.job_workers SCHEDULER …`, with the options that dask-jobqueue writes.

Libraries are loaded once, and workers are forked, each below a keeper, as on this machine (`hpcdp.clusters._keeping`). Their
certificate is in the environment. A worker that leaves by itself, since its walltime ends, it is told to, or there is no
scheduler, is not replaced, and the job ends with its last one.
"""

from __future__ import annotations

import argparse
import os

import dask

from hpcdp.clusters._keeping import keep
from hpcdp.clusters._serving import DaskServing


def main() -> None:
    """Serve a scheduler with as many workers as are asked for; returns in workers only."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scheduler")
    for name in ("name", "local-directory", "interface", "protocol", "lifetime", "death-timeout"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--memory-limit")
    parser.add_argument("--nthreads", type=int)
    parser.add_argument("--nworkers", type=int)
    parser.add_argument("--module", action="append", default=[])
    given = parser.parse_args()
    worker = {
        "scheduler_ip": given.scheduler,
        "nthreads": given.nthreads,
        "memory_limit": 0,
        "local_directory": given.local_directory,
        "interface": given.interface,
        "protocol": given.protocol,
        "lifetime": given.lifetime,
        "death_timeout": given.death_timeout,
        "preload": ["hpcdp.clusters.preload"],
    }
    modules = (*given.module, "hpcdp.clusters.scheduler", "hpcdp.clusters.preload")
    read, _ = os.pipe()  # whose other end stays open here: standard input would say at once that the driver is gone
    os.dup2(read, 0)
    keep(given.nworkers, DaskServing(given.name, modules, config=dask.config.config, worker=worker, leaves=True), {})


if __name__ == "__main__":
    main()
