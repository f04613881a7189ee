"""Runs on SLURM that lose a worker, a node, the controller, or time: the study completes, with the same JSON.

Each test disturbs one run once. Nothing that was committed by then changes or is drawn again, and the test prints how
many chunks the run drew twice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import records
from disturbed import ACTIVE, BUSY, IDLE, PAUSE, Disturbed, wait_until
from throwaway import ThrowawaySlurm


def cancel_one_job(run: Disturbed) -> None:
    run.slurm.cancel(run.busy_jobs()[0].id)


def cancel_all_jobs(run: Disturbed) -> None:
    run.slurm.cancel(*[job.id for job in run.jobs(*ACTIVE)])


def kill_worker(run: Disturbed) -> None:
    run.worker(run.busy_jobs()[0]).kill()


def kill_nanny(run: Disturbed) -> None:
    run.nanny(run.busy_jobs()[0]).kill()


def restart_controller(run: Disturbed) -> None:
    """A job ends while nobody can be told; the other one goes on, and is not replaced. SLURM's commands try for 9 s."""
    processes = run.slurm.processes(run.busy_jobs()[0].id)
    run.slurm.stop_controller()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    assert "Unable to contact slurm controller" in run.slurm.run("squeue", check=False).stderr
    some = len(records(run.store)) + BUSY
    wait_until(lambda: len(records(run.store)) >= some, "work is done without the controller")
    run.set_pause(3.0)  # so that the run is not over before SLURM knows of the lost job
    run.slurm.start_controller()
    wait_until(lambda: len(run.jobs()) == 3, "the lost job is replaced")
    run.set_pause(PAUSE)


def preempt(run: Disturbed) -> None:
    """A job of a better partition takes all nodes, and gives them back when others wait for them."""
    high = run.slurm.submit(IDLE, "--nodes=4", "--exclusive")
    run.slurm.wait_for(high, "RUNNING")
    assert not run.jobs("RUNNING")
    wait_until(lambda: len(run.jobs("PENDING")) == 2, "two jobs wait")
    run.slurm.cancel(high)


# what is done to the run, what the driver says of it, how many jobs there are in the end, what is unlike other runs
DISTURBANCES: dict[str, tuple[Callable[[Disturbed], None], str, int, dict[str, Any]]] = {
    "scancel of one worker job": (cancel_one_job, "ended: cancelled", 3, {}),
    "scancel of all worker jobs": (cancel_all_jobs, "ended: cancelled", 4, {}),
    "kill -9 of a worker process": (kill_worker, "", 2, {}),
    "kill -9 of a nanny": (kill_nanny, "ended: failed", 3, {}),
    "slurmctld stopped, a job lost, slurmctld started": (
        restart_controller,
        "asked again every 1 s",
        3,
        {"pause": 2 * PAUSE},
    ),
    "preemption of all worker jobs": (preempt, "ended: preempted", 4, {"queue": "scavenge"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", DISTURBANCES)
def test_a_run_survives(what: str, tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    disturb, words, jobs, settings = DISTURBANCES[what]
    run = Disturbed(tmp_path, clean_slurm, **settings)
    with run.begun() as driver:
        disturb(run)
        said = run.end(driver)
    assert words in said
    assert len(run.jobs()) == jobs, said
    run.check(what, undisturbed)
    run.check_no_jobs()


@pytest.mark.slow
def test_slurmd_killed(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    """The node's workers go on; nobody can end their jobs when the study is complete, but they leave."""
    run = Disturbed(tmp_path, clean_slurm)
    with run.begun() as driver:
        job = run.busy_jobs()[0]
        clean_slurm.kill_node_daemon(clean_slurm.node_of(job))
        run.end(driver)
    assert run.check("kill -9 of slurmd", undisturbed) == 0
    wait_until(lambda: not clean_slurm.processes(job.id), "its processes leave")


@pytest.mark.slow
def test_a_node_is_lost(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    """All that runs on a node ends at once, and SLURM finds out later; workers then start on another node."""
    run = Disturbed(tmp_path, clean_slurm)
    with run.begun() as driver:
        node = clean_slurm.node_of(run.busy_jobs()[0])
        lost = [job for job in run.busy_jobs() if clean_slurm.node_of(job) == node]
        processes = [process for job in lost for process in clean_slurm.processes(job.id)]
        steps = {parent for p in processes for parent in p.parents() if parent.name() == "slurmstepd"}
        assert steps
        clean_slurm.kill_node_daemon(node)
        for process in [*steps, *processes]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        said = run.end(driver)
    run.check(f"loss of a node with {len(lost)} workers", undisturbed)
    if len(lost) == 2:  # otherwise the other worker may have done all before SLURM noticed
        assert "ended: node_fail" in said
        assert {clean_slurm.node_of(job) for job in run.jobs() if job not in run.first} - {node}


@pytest.mark.slow
def test_walltime_ends_every_worker(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    """Workers leave in order before their walltime, so nothing is drawn twice, and others take their places."""
    run = Disturbed(tmp_path, clean_slurm, pause=0.75, walltime="1m", drain="30s")
    with run.begun() as driver:
        said = run.end(driver)
    first = [clean_slurm.job(job.id) for job in run.first]
    assert [job.state for job in first] == ["COMPLETED", "COMPLETED"], said
    assert len(run.jobs()) >= 4
    assert run.check("a walltime that ends every worker", undisturbed) == 0
