"""Runs on SLURM whose driver is killed, whose chunk kills workers, or who get no worker: nothing is lost, all is said."""

import signal
import time
from pathlib import Path

import pytest
from commands import SEED, Chunk, call, calls, committed, show, started, stored_problem
from disturbed import ACTIVE, BUSY, IDLE, ROWS, Disturbed, wait_until
from journals import records
from throwaway import ThrowawaySlurm

from hpcdp.keys import stream
from hpcdp.store.layout import Layout
from hpcdp.store.lease import BEAT, STALE, host_name, read_leases

pytestmark = pytest.mark.slow


def test_drivers_killed(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    """A dead driver's worker jobs leave by themselves. From another host its lease is taken over, here at once."""
    run = Disturbed(tmp_path, clean_slurm)
    run.hold_after(BUSY)
    number = int(call("submit", run.study, "--profile", run.profile, "--store", run.store).stdout)
    run.wait_until_held(2)
    node = clean_slurm.node_of(number)
    assert node != host_name()

    begin = time.monotonic()
    assert f" on {node}, job {number}," in call("resume", run.store, code=1).stderr
    assert time.monotonic() - begin < STALE, "a heartbeat shows that it is held, long before it could be taken over"

    (driver,) = [process for process in clean_slurm.processes(number) if "hpcdp" in process.cmdline()]
    killed, first, leases = time.monotonic(), run.jobs(), len(read_leases(Layout(run.store)))
    driver.kill()
    run.release()
    wait_until(lambda: not run.jobs(*ACTIVE), "its worker jobs leave")
    run.remember()
    run.hold_after(BUSY)
    with started("resume", run.store, "--cluster", run.profile, folder=tmp_path) as second:
        wait_until(lambda: len(read_leases(Layout(run.store))) > leases, "the lease is taken over")
        assert time.monotonic() - killed > STALE - 2 * BEAT, "taken over before it was stale"
        assert [lease["host"] for lease in read_leases(Layout(run.store))][-2:] == [node, host_name()]
        run.wait_until_held(len(first) + 2)
        second.kill()
        _, said = second.communicate()
        assert second.returncode == -signal.SIGKILL
    assert f"is held by process {driver.pid} on {node}, last heartbeat" in said

    run.set_pause(0.0)
    run.release()
    left = {job.id for job in run.jobs(*ACTIVE)}
    with started("resume", run.store, "--cluster", run.profile, folder=tmp_path) as third:
        wait_until(lambda: not left & {job.id for job in run.jobs(*ACTIVE)}, "they leave")
        said = run.end(third)
    assert "is held by" not in said
    run.check("kill -9 of the driver in a job, taken over from another host, and of the second", undisturbed)
    run.check_no_jobs()


def test_poison_chunk(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed_store: Path, scheduler: str) -> None:
    """A chunk that ends its worker each time is given up and named; all that does not need it is done."""
    problem = stored_problem(undisturbed_store)
    law = problem.pair_laws[ROWS // 2][1]
    bad: Chunk = (law, "train", 2)
    run = Disturbed(tmp_path, clean_slurm, pause=0.05)
    (tmp_path / "poison").write_text(f"{stream(SEED, *bad).bit_generator.state['state']['state']:x}")
    with started("run", run.study, "--store", run.store, "--cluster", run.profile, folder=tmp_path) as driver:
        said = run.end(driver, code=1)
    assert f"train chunks 0 to 3 of {problem.describe_law(law)}" in said
    assert "it ended its worker process each time it ran" in said
    assert len(run.jobs()) == 2, "the death of a worker does not end its job"
    missing = {(law, "train", chunk) for chunk in range(4)}
    assert committed(run.store) == committed(undisturbed_store) - missing
    counted = {entry["key"] for record in records(run.store, "counts") for entry in record.body["entries"]}
    assert counted == {m for m, laws in zip(problem.model_keys, problem.pair_laws, strict=True) if law not in laws}
    assert 3 <= calls(tmp_path, run.store).count(bad) <= 6  # three times in a task with others, three times for itself

    (tmp_path / "poison").unlink()
    run.remember()
    call("resume", run.store, "--cluster", scheduler)
    run.check("a poison chunk, mended", show(undisturbed_store))


@pytest.mark.parametrize("is_full", [False, True])
def test_no_worker(
    is_full: bool, tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str, scheduler: str
) -> None:
    """What SLURM said is told at each try, or what jobs wait for; the run ends when there was no worker for too long."""
    if is_full:
        clean_slurm.wait_for(clean_slurm.submit(IDLE, "--nodes=4", "--exclusive"), "RUNNING")
    queue = "main" if is_full else "nosuchpartition"
    run = Disturbed(tmp_path, clean_slurm, pause=0, queue=queue, no_worker_timeout="8s")
    lines = call("run", run.study, "--store", run.store, "--cluster", run.profile, code=1).stderr.splitlines()
    (message,) = [line for line in lines if line.startswith("hpcdp: ")]
    assert message.startswith("hpcdp: no worker for 8 s")
    assert ("pending (Resources)" if is_full else "invalid partition") in message
    assert [job.state for job in run.jobs()] == ["CANCELLED"] * (2 * is_full)
    tries = [line for line in lines if "jobs refused" in line]
    assert is_full or len(tries) >= 2
    assert all("2 of 2 jobs refused:" in line and "invalid partition" in line for line in tries)
    assert all(f"tried again in {seconds} s" in line for seconds, line in zip((5, 10), tries, strict=False))
    call("resume", run.store, "--cluster", scheduler)
    assert show(run.store) == undisturbed


@pytest.mark.promise
def test_submit_after_a_lost_driver(tmp_path: Path, clean_slurm: ThrowawaySlurm) -> None:
    """Its lease is young, and of another host, but SLURM says that its job is over."""
    run = Disturbed(tmp_path, clean_slurm)
    run.hold_after(BUSY)
    submit = ("submit", run.study, "--profile", run.profile, "--store", run.store)
    number = int(call(*submit).stdout)
    wait_until(lambda: len(read_leases(Layout(run.store))) == 2, "the driver holds the store")
    assert f"job {number} runs this store already" in call(*submit, code=1).stderr
    for process in clean_slurm.processes(number):
        process.kill()
    clean_slurm.wait_for(number, "FAILED")
    assert int(call(*submit).stdout) > number
    call("cancel", run.store)
