"""The SLURM that the tests use is real: its jobs run, wait, are preempted and outlive the daemons."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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


def test_four_nodes_in_two_partitions(clean_slurm: ThrowawaySlurm) -> None:
    assert clean_slurm.nodes == ["n1", "n2", "n3", "n4"]
    lines = clean_slurm.run("sinfo", "-h", "-N", "-o", "%N %P %c %m %T").stdout.splitlines()
    expected = [f"{node} {name} 8 16000 idle" for node in clean_slurm.nodes for name in ("main*", "scavenge")]
    assert sorted(lines) == sorted(expected)


def test_a_process_of_a_test_sees_this_slurm(clean_slurm: ThrowawaySlurm) -> None:
    assert os.environ["SLURM_CONF"] == str(clean_slurm.folder / "slurm.conf")
    others = [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_")) and name != "SLURM_CONF"]
    assert others == []


def test_a_job_writes_its_output(clean_slurm: ThrowawaySlurm, tmp_path: Path) -> None:
    command = "echo $SLURM_JOB_ID $SLURMD_NODENAME $SLURM_CPUS_PER_TASK $SLURM_MEM_PER_NODE"
    job_id = clean_slurm.submit(command, f"--output={tmp_path}/%j.txt", "--cpus-per-task=3", "--mem=5G")
    job = clean_slurm.wait_for(job_id, "COMPLETED")
    assert (tmp_path / f"{job_id}.txt").read_text() == f"{job_id} {clean_slurm.node_of(job)} 3 {5 * 1024}\n"


def test_jobs_and_their_states(clean_slurm: ThrowawaySlurm) -> None:
    name = "two words|and a bar"
    running = clean_slurm.submit(LONG, "--nodes=3", f"--job-name={name}")
    held = clean_slurm.submit("true", "--hold", f"--job-name={name}")
    done, failed = clean_slurm.submit("true"), clean_slurm.submit("exit 3")
    assert len(clean_slurm.wait_for(running, "RUNNING").nodes) == 3
    clean_slurm.wait_for(done, "COMPLETED")
    assert clean_slurm.wait_for(failed, "FAILED").reason == "NonZeroExitCode"
    found = [(job.id, job.state, job.reason) for job in clean_slurm.jobs(name)]
    assert found == [(running, "RUNNING", "None"), (held, "PENDING", "JobHeldUser")]
    assert clean_slurm.job(held).nodes == ()
    with pytest.raises(SlurmError, match="Invalid partition"):
        clean_slurm.submit("true", "--partition=none")


def test_cancel(clean_slurm: ThrowawaySlurm) -> None:
    running, pids = start_job(clean_slurm, LONG)
    held = clean_slurm.submit(LONG, "--hold")
    clean_slurm.cancel(running, held)
    for job_id in (running, held):
        clean_slurm.wait_for(job_id, "CANCELLED")
    assert not any(map(is_alive, pids))
    clean_slurm.cancel(running)  # no error


def test_processes_of_a_job(clean_slurm: ThrowawaySlurm) -> None:
    """Also its children, and one that left the job's process group, and none of another job."""
    _, others = start_job(clean_slurm, LONG)
    job_id, pids = start_job(clean_slurm, "sleep 301 & setsid sleep 302 & exec sleep 303", processes=3)
    assert sorted(psutil.Process(pid).cmdline()[-1] for pid in pids) == ["301", "302", "303"]
    assert not pids & others
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not clean_slurm.processes(job_id))  # some are zombies still


def test_a_running_job_outlives_the_controller(clean_slurm: ThrowawaySlurm) -> None:
    job_id, pids = start_job(clean_slurm, LONG)
    clean_slurm.stop_controller()
    assert clean_slurm.run("scontrol", "ping", check=False).returncode == 1
    assert all(map(is_alive, pids))
    clean_slurm.start_controller()
    assert clean_slurm.job(job_id).state == "RUNNING"
    assert {process.pid for process in clean_slurm.processes(job_id)} == pids


def test_a_running_job_outlives_its_nodes_daemon(clean_slurm: ThrowawaySlurm) -> None:
    job_id, pids = start_job(clean_slurm, LONG, "--nodelist=n2")
    clean_slurm.kill_node_daemon("n2")
    clean_slurm.cancel(job_id)  # nobody is there to do it
    assert clean_slurm.wait_for(job_id, "COMPLETING").nodes == ("n2",)
    assert all(map(is_alive, pids))
    clean_slurm.start_node_daemon("n2")
    clean_slurm.wait_for(job_id, "CANCELLED")
    assert not any(map(is_alive, pids))
    start_job(clean_slurm, LONG, "--nodelist=n2")


def test_main_preempts_scavenge(clean_slurm: ThrowawaySlurm) -> None:
    low, pids = start_job(clean_slurm, LONG, "--partition=scavenge", "--nodes=4", "--exclusive")
    high, _ = start_job(clean_slurm, LONG, "--nodes=4", "--exclusive")
    assert clean_slurm.wait_for(low, "PENDING").nodes == ()
    assert not any(map(is_alive, pids))
    assert " Restarts=1 " in clean_slurm.run("scontrol", "show", "job", low).stdout
    clean_slurm.cancel(high)
    clean_slurm.wait_for(clean_slurm.submit("true"), "COMPLETED")


def test_reset_mends_all(clean_slurm: ThrowawaySlurm) -> None:
    job_id, pids = start_job(clean_slurm, f"setsid sleep 301 & {LONG}", processes=2)
    clean_slurm.run("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=test")
    clean_slurm.kill_node_daemon(clean_slurm.node_of(job_id))
    clean_slurm.stop_controller()
    clean_slurm.reset()
    assert not any(map(is_alive, pids))
    assert clean_slurm.run("squeue", "-h").stdout == ""
    start_job(clean_slurm, LONG, "--nodes=4", "--exclusive")


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
