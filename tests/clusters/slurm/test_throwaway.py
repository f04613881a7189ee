"""The SLURM that the tests use leaves nothing behind, whatever a test did to it; what its jobs do, the other tests show."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest
from throwaway import SlurmError, ThrowawaySlurm

LONG = "exec sleep 300"


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def start_job(slurm: ThrowawaySlurm, command: str, *options: object, processes: int = 1) -> tuple[int, set[int]]:
    """A running job, and the process ids of its command."""
    job_id = slurm.submit(command, *options)
    slurm.wait_for(job_id, "RUNNING")
    wait_until(lambda: len(slurm.processes(job_id)) == processes)
    return job_id, {process.pid for process in slurm.processes(job_id)}


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_reset_mends_all(clean_slurm: ThrowawaySlurm) -> None:
    job_id, pids = start_job(clean_slurm, f"setsid sleep 301 & {LONG}", processes=2)
    clean_slurm.run("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=test")
    clean_slurm.kill_node_daemon(clean_slurm.node_of(job_id))
    clean_slurm.stop_controller()
    clean_slurm.reset()
    assert not any(map(is_alive, pids))
    assert clean_slurm.run("squeue", "-h").stdout == ""
    start_job(clean_slurm, LONG, "--nodes=4", "--exclusive")


@pytest.mark.slow
@pytest.mark.parametrize("dead", [False, True], ids=["all daemons run", "only munge runs"])
def test_close_ends_its_own_processes_and_no_others(clean_slurm: ThrowawaySlurm, dead: bool) -> None:
    """Also what a job hid from SLURM; a job of the other cluster has the same id."""
    hidden = str(300 + os.getpid() / 1e8)
    command = f"env -i sleep {hidden} & setsid sleep 301 & trap '' TERM; sleep 302"
    with ThrowawaySlurm(nodes=1) as other:
        job_id, _ = start_job(other, command, processes=3)
        while (twin := start_job(clean_slurm, LONG, "--mem=1"))[0] < job_id:
            pass
        ours = [process for process in psutil.process_iter() if belongs(process, str(other.folder), hidden)]
        ours += [child for process in ours for child in process.children()]  # slurmctld's
        ours += [*other.processes(job_id), *other.processes(job_id)[0].parents()[:1]]
        names = {process.name() for process in ours}
        if dead:
            other.stop_controller()
            other.kill_node_daemon("n1")
    assert names >= {"munged", "slurmctld", "slurmd", "slurmstepd", "sleep"}
    assert not [process for process in ours if is_alive(process.pid)]
    assert not other.folder.exists()
    assert all(map(is_alive, twin[1]))
    assert clean_slurm.job(twin[0]).state == "RUNNING"
    other.close()  # once more does no harm


def belongs(process: psutil.Process, *words: str) -> bool:
    with suppress(psutil.Error):
        return any(word in argument for word in words for argument in process.cmdline())
    return False


@pytest.mark.usefixtures("slurm")  # for its check that SLURM is installed
def test_a_cluster_that_does_not_start_says_why_and_leaves_nothing() -> None:
    cluster = ThrowawaySlurm(nodes=1, extra="NoSuchSetting=1")
    with pytest.raises(SlurmError, match="NoSuchSetting"), cluster:
        pass
    assert not cluster.folder.exists()
