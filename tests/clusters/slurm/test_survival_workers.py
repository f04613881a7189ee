"""Runs on SLURM that lose workers, nodes, the controller, or time: the study completes, with the same JSON.

Nothing that was committed when a run was disturbed changes or is drawn again, and each test prints how many chunks the
run drew twice.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from disturbed import ACTIVE, BUSY, IDLE, Disturbed, wait_until
from journals import records
from throwaway import Job, ThrowawaySlurm


def kill_worker(run: Disturbed) -> list[Job]:
    """Another one takes its place in the same job."""
    job = run.busy_jobs()[0]
    worker, drawn = run.worker(job), run.drawn(job)
    worker.kill()
    wait_until(lambda: len(run.drawn(job)) > len(drawn), "another worker process that draws")
    assert run.worker(job) != worker
    return []


def kill_worker_of_dask(run: Disturbed) -> list[Job]:
    job = run.busy_jobs()[0]
    run.worker_of_dask(job).kill()
    return [job]


def cancel_one_job(run: Disturbed) -> list[Job]:
    job = run.busy_jobs()[0]
    run.slurm.cancel(job.id)
    return [job]


def cancel_all_jobs(run: Disturbed) -> list[Job]:
    jobs = run.jobs(*ACTIVE)
    run.slurm.cancel(*[job.id for job in jobs])
    return jobs


def restart_controller(run: Disturbed) -> list[Job]:
    """A job ends while nobody can be told; the other one goes on, and is not replaced. SLURM's commands try for 9 s."""
    job = run.busy_jobs()[0]
    processes = run.slurm.processes(job.id)
    run.slurm.stop_controller()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    for _ in range(2):  # the driver asks each second: meanwhile it is told once
        assert "Unable to contact slurm controller" in run.slurm.run("squeue", check=False).stderr
    run.hold_after(BUSY)
    wait_until(lambda: len(records(run.store)) >= run.enough, "work is done without the controller")
    run.slurm.start_controller()
    return [job]


def preempt(run: Disturbed) -> list[Job]:
    """A job of a better partition takes all nodes, and gives them back when others wait for them."""
    jobs = run.jobs("RUNNING")
    high = run.slurm.submit(IDLE, "--nodes=4", "--exclusive")
    run.slurm.wait_for(high, "RUNNING")
    assert not run.jobs("RUNNING")
    wait_until(lambda: len(run.jobs("PENDING")) == 2, "two jobs wait")
    run.slurm.cancel(high)
    return jobs


# what is done to the run, one after the other, and how the driver says that the jobs ended that were lost
DISTURBANCES: list[tuple[Callable[[Disturbed], list[Job]], int, str]] = [
    (kill_worker, 0, ""),
    (kill_worker_of_dask, 1, "failed"),
    (cancel_one_job, 1, "cancelled"),
    (cancel_all_jobs, 2, "cancelled"),
    (restart_controller, 1, ""),
    (preempt, 2, "preempted"),
]


@pytest.mark.slow
@pytest.mark.parametrize("half", [slice(None, 3), slice(3, None)])
def test_a_run_survives(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str, half: slice) -> None:
    """Runs that lose a child, a worker of Dask, a job, all jobs, a job unseen by the controller, and all its nodes."""
    run, started, ends = Disturbed(tmp_path, clean_slurm, queue="scavenge"), 2, []
    with run.begun() as driver:
        for disturb, count, word in DISTURBANCES[half]:
            lost = disturb(run)
            assert len(lost) == count
            ends += [(job.id, word) for job in lost]
            started += count
            run.wait_until_busy(started)
            run.hold_after(BUSY)
            run.wait_until_held(started)
            assert not {job.id for job in lost} & {job.id for job in run.busy_jobs()}
        run.release()
        said = run.end(driver)
    for number, word in ends:
        assert re.search(rf"job {number}( on \S+)? ended: {word}", said), said
    assert ("asked again every 1 s" in said) == (half.start is not None)
    assert len(run.jobs()) == started, said
    run.check("a run that was disturbed three times", undisturbed)
    run.check_no_jobs()


@pytest.mark.slow
@pytest.mark.release
def test_a_node_is_lost_and_the_daemon_of_another(
    tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str
) -> None:
    """All that runs on a node ends at once, and SLURM finds out later; workers then start on another node.

    When only a node's daemon ends, its workers go on; nobody can end their jobs when the study is complete, but they leave.
    """
    run = Disturbed(tmp_path, clean_slurm)
    with run.begun() as driver:
        first = run.jobs()
        node = clean_slurm.node_of(run.busy_jobs()[0])
        lost = [job for job in run.busy_jobs() if clean_slurm.node_of(job) == node]
        processes = [process for job in lost for process in clean_slurm.processes(job.id)]
        steps = {parent for p in processes for parent in p.parents() if parent.name() == "slurmstepd"}
        assert steps
        clean_slurm.kill_node_daemon(node)
        for process in [*steps, *processes]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        run.hold_after(3)  # the less is left, the sooner the run is over when the next daemon ends
        run.wait_until_held(2 + len(lost))
        others = [job for job in run.jobs() if job not in first]
        assert {clean_slurm.node_of(job) for job in run.busy_jobs() if job in others} - {node}

        jobs = run.busy_jobs()
        clean_slurm.kill_node_daemon(clean_slurm.node_of(jobs[0]))
        run.release()
        said = run.end(driver)
    for job in lost:
        assert re.search(rf"job {job.id}( on \S+)? ended: node_fail", said), said
    run.check(f"loss of a node with {len(lost)} workers, then kill -9 of slurmd", undisturbed)
    assert len(run.jobs()) == 2 + len(lost)
    drawn = [line for job in jobs for line in run.drawn(job)]
    assert len(set(drawn)) == len(drawn), "the jobs of the second node drew nothing twice"
    wait_until(lambda: not clean_slurm.processes(jobs[0].id), "its processes leave")


@pytest.mark.promise
@pytest.mark.slow
def test_walltime_ends_every_worker(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    """Workers leave in order before their walltime, so nothing is drawn twice, and others take their places."""
    run = Disturbed(tmp_path, clean_slurm, walltime="1m", drain="30s")
    with run.begun() as driver:
        run.set_pause(1.5)  # all chunks take longer than a walltime, on whatever machine
        run.release()
        first = [job.id for job in run.jobs()]
        wait_until(lambda: all(clean_slurm.job(number).state not in ACTIVE for number in first), "both leave")
        wait_until(lambda: len(run.jobs()) >= 4, "others take their places")
        run.set_pause(0.0)
        said = run.end(driver)
    assert [clean_slurm.job(number).state for number in first] == ["COMPLETED", "COMPLETED"], said
    assert run.check("a walltime that ends every worker", undisturbed) == 0
