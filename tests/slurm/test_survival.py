"""Runs on SLURM that lose a worker, a node, the controller, the driver, or time: the study completes, with the same JSON.

Each test disturbs one run once. Nothing that was committed by then changes or is drawn again, and the test prints how
many chunks the run drew twice.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import (
    MECHANISM,
    SEED,
    Chunk,
    call,
    calls,
    committed,
    contents,
    hpcdp,
    records,
    show,
    started,
    stored_problem,
    write_study,
)
from throwaway import Job, ThrowawaySlurm

from hpcdp.clusters.folder import driver_name, job_folder
from hpcdp.keys import stream
from hpcdp.store.layout import Layout
from hpcdp.store.lease import BEAT, STALE, host_name, read_leases
from hpcdp.store.records import read_json

# What steers the mechanism lies in files beside it, so that all studies are one: as slow as `pause` says, it leaves a
# file for each job that drew, and ends its process when it is to draw the chunk that `poison` names.
STEERED = (
    MECHANISM
    + """

def read(name):
    try:
        with open(os.path.join(os.path.dirname(LOG), name)) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def steered(database, size, rng):
    note(database, size, rng)
    open(os.path.join(os.path.dirname(LOG), "drew-" + os.environ.get("SLURM_JOB_ID", "here")), "a").close()
    if read("poison") == f"{rng.bit_generator.state['state']['state']:x}":
        os._exit(1)
    time.sleep(float(read("pause") or 0))
    return database.sum() + rng.laplace(size=size)
"""
)
ROWS = 12
SETTINGS: dict[str, Any] = {
    "mechanism": STEERED,
    "call": "own:steered",
    "databases": [[i / 4 for i in range(ROWS)]],
    "train": 1000,
    "test": 1000,
    "chunk": 250,
}
CHUNKS = 8 * (ROWS + 1)
PAUSE = 0.15  # seconds a chunk: two workers need eight seconds
BUSY = 4  # records, of some 40, after which a run is disturbed
LONG = 240.0  # seconds after which a run that goes on is stuck, on whatever machine
IDLE = "exec sleep 600"
ACTIVE = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")

PROFILE = """
[cluster]
interface = "lo"
poll = "1s"
drain = "{drain}"
no_worker_timeout = "{no_worker_timeout}"
[worker]
queue = "{queue}"
cores = 1
memory = "1GB"
walltime = "{walltime}"
[size]
jobs = 2
[driver]
queue = "main"
cores = 1
memory = "1GB"
walltime = "10m"
"""


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for something to be so; rarely asked, because SLURM's commands take time from what they are waiting for."""
    end = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < end, f"not so after {LONG} s: {what}"
        time.sleep(0.1)


class Disturbed:
    """A study in a folder of its own, with a profile of two worker jobs. profile: what differs from the usual."""

    def __init__(self, folder: Path, slurm: ThrowawaySlurm, pause: float = PAUSE, **profile: str) -> None:
        self.folder, self.slurm = folder, slurm
        self.study, self.store, self.profile = write_study(folder, **SETTINGS), folder / "s.zarr", folder / "p.toml"
        usual = {"drain": "10s", "no_worker_timeout": "2m", "queue": "main", "walltime": "10m"}
        self.profile.write_text(PROFILE.format(**{**usual, **profile}))
        self.set_pause(pause)
        self.name = job_folder(Layout(self.store), "s").name

    def set_pause(self, seconds: float) -> None:
        """Seconds a chunk, from now on."""
        (self.folder / "pause").write_text(str(seconds))

    @contextmanager
    def begun(self) -> Iterator[subprocess.Popen[str]]:
        """A run whose two jobs have drawn, and some of whose records are there; what it has by then is remembered."""
        with started("run", self.study, "--store", self.store, "--cluster", self.profile, folder=self.folder) as driver:
            self.wait_until_busy()
            assert driver.poll() is None
            self.remember()
            yield driver

    def wait_until_busy(self) -> None:
        """Wait until two jobs have drawn and some records are there."""
        wait_until(lambda: len(records(self.store)) >= BUSY, "records")
        wait_until(lambda: len(self.busy_jobs()) == 2, "two jobs that draw")

    def remember(self) -> None:
        """Look at what is committed now, and how far the log of calls is."""
        self.before, self.done = contents(self.store), committed(self.store)
        self.position, self.moment = len(calls(self.folder, self.store)), time.monotonic()
        self.first = self.jobs()
        assert self.done
        assert len(self.done) < CHUNKS, "the run was too fast to be disturbed"

    def jobs(self, *states: str) -> list[Job]:
        """The worker jobs, in some states or in all; those that ended too."""
        return [job for job in self.slurm.jobs(self.name) if not states or job.state in states]

    def busy_jobs(self) -> list[Job]:
        """Worker jobs that run and have drawn."""
        return [job for job in self.jobs("RUNNING") if (self.folder / f"drew-{job.id}").exists()]

    def worker(self, job: Job) -> psutil.Process:
        """The process of a job that computes, a child of the nanny."""
        (found,) = [child for child in self.nanny(job).children() if "spawn_main" in " ".join(child.cmdline())]
        return found

    def nanny(self, job: Job) -> psutil.Process:
        """The process of a job that starts its worker anew."""
        (found,) = [p for p in self.slurm.processes(job.id) if "distributed.cli.dask_worker" in p.cmdline()]
        return found

    def end(self, driver: subprocess.Popen[str], code: int = 0) -> str:
        """Wait for the driver's end; what it said on stderr."""
        _, said = driver.communicate(timeout=LONG)
        assert driver.returncode == code, said
        assert "Traceback" not in said
        assert "unexpected" not in said
        return said

    def check(self, what: str, undisturbed: str) -> int:
        """The study is complete, as it would be without the disturbance; chunks that were drawn twice."""
        seconds = time.monotonic() - self.moment
        assert show(self.store) == undisturbed
        after = contents(self.store)
        assert {path: after.get(path) for path in self.before} == self.before, "what was committed did not change"
        drawn = calls(self.folder, self.store)
        assert not self.done & set(drawn[self.position :]), "no committed chunk was drawn again"
        times = Counter(drawn)
        assert len(times) == CHUNKS
        twice = sum(number > 1 for number in times.values())
        print(f"{what}: complete after {seconds:.0f} s; {twice} of {CHUNKS} chunks drawn twice or more")
        return twice

    def check_no_jobs(self) -> None:
        """No job of the study is left."""
        names = (self.name, driver_name(self.name))
        wait_until(
            lambda: not [j for j in self.slurm.jobs() if j.name in names and j.state in ACTIVE], "no job is left"
        )


@pytest.fixture(scope="module")
def undisturbed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the study that one worker of this machine ran from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    store = folder / "s.zarr"
    hpcdp("run", write_study(folder, **SETTINGS), "--store", store, "--workers", 1, folder=folder)
    assert Counter(calls(folder, store)) == dict.fromkeys(committed(store), 1)
    return store


@pytest.fixture(scope="module")
def undisturbed(undisturbed_store: Path) -> str:
    """The JSON of the study, as it should be whatever happens."""
    return show(undisturbed_store)


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


@pytest.mark.slow
def test_driver_killed(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    """Its worker jobs leave by themselves; on the same host the run goes on at once."""
    run = Disturbed(tmp_path, clean_slurm)
    with run.begun() as driver:
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
        with started("resume", run.store, "--cluster", run.profile, folder=tmp_path) as second:
            wait_until(lambda: not {j.id for j in run.first} & {j.id for j in run.jobs(*ACTIVE)}, "they leave")
            print(f"the dead driver's worker jobs left after {time.monotonic() - run.moment:.0f} s")
            said = run.end(second)
    assert "is held by" not in said
    run.check("kill -9 of the driver", undisturbed)
    run.check_no_jobs()


@pytest.mark.slow
def test_lease_is_taken_over_from_another_node(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    run = Disturbed(tmp_path, clean_slurm, pause=3 * PAUSE)  # it must still run when the second run was refused
    number = int(hpcdp("submit", run.study, "--profile", run.profile, "--store", run.store, folder=tmp_path).stdout)
    run.wait_until_busy()
    node = clean_slurm.node_of(number)
    assert node != host_name()

    begin = time.monotonic()
    refusal = hpcdp("resume", run.store, folder=tmp_path, code=1).stderr
    assert f" on {node}, job {number}," in refusal
    seconds = time.monotonic() - begin
    print(f"a second run was refused after {seconds:.0f} s")
    assert seconds < 3 * BEAT, "the next heartbeat shows that the lease is held"

    run.remember()
    (driver,) = [process for process in clean_slurm.processes(number) if "hpcdp" in process.cmdline()]
    driver.kill()
    run.set_pause(0)
    wait_until(lambda: not run.jobs(*ACTIVE), "its worker jobs leave")
    print(f"the dead driver's worker jobs left after {time.monotonic() - run.moment:.0f} s")
    said = hpcdp("resume", run.store, "--workers", 2, folder=tmp_path).stderr
    assert f"is held by process {driver.pid} on {node}, last heartbeat" in said
    assert time.monotonic() - run.moment > STALE - 2 * BEAT, "taken over before it was stale"
    assert [lease["host"] for lease in read_leases(Layout(run.store))][-2:] == [node, host_name()]
    run.check("kill -9 of the driver in a job, taken over from another host", undisturbed)


@pytest.mark.slow
def test_poison_chunk(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed_store: Path) -> None:
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
    counted = {entry["model"] for path in records(run.store, "counts") for entry in read_json(path)["entries"]}
    assert counted == {m for m, laws in zip(problem.model_keys, problem.pair_laws, strict=True) if law not in laws}
    tries = calls(tmp_path, run.store).count(bad)
    print(f"the poison chunk was tried {tries} times")
    assert 3 <= tries <= 6  # three times in a task with others, three times for itself

    (tmp_path / "poison").unlink()
    run.remember()
    hpcdp("resume", run.store, "--cluster", run.profile, folder=tmp_path)
    run.check("a poison chunk, mended", show(undisturbed_store))


def test_refused_jobs(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    """What SLURM said is told at each try, and the run ends when there was no worker for too long."""
    run = Disturbed(tmp_path, clean_slurm, pause=0, queue="nosuchpartition", no_worker_timeout="8s")
    done = hpcdp("run", run.study, "--store", run.store, "--cluster", run.profile, folder=tmp_path, code=1)
    lines = done.stderr.splitlines()
    tries = [line for line in lines if "jobs refused" in line]
    assert len(tries) >= 2
    assert all("2 of 2 jobs refused:" in line and "invalid partition" in line for line in tries)
    assert "tried again in 5 s" in tries[0]
    assert "tried again in 10 s" in tries[1]
    (message,) = [line for line in lines if line.startswith("hpcdp: ")]
    assert message.startswith("hpcdp: no worker for 8 s")
    assert "invalid partition" in message
    assert run.jobs() == []
    call("resume", run.store, "--workers", 2)
    assert show(run.store) == undisturbed


def test_no_free_node(tmp_path: Path, clean_slurm: ThrowawaySlurm, undisturbed: str) -> None:
    """The run ends with what its jobs wait for."""
    clean_slurm.wait_for(clean_slurm.submit(IDLE, "--nodes=4", "--exclusive"), "RUNNING")
    run = Disturbed(tmp_path, clean_slurm, pause=0, no_worker_timeout="5s")
    done = hpcdp("run", run.study, "--store", run.store, "--cluster", run.profile, folder=tmp_path, code=1)
    (message,) = [line for line in done.stderr.splitlines() if line.startswith("hpcdp: ")]
    assert message.startswith("hpcdp: no worker for 5 s (")
    assert "pending (Resources)" in message
    assert [job.state for job in run.jobs()] == ["CANCELLED", "CANCELLED"]
    call("resume", run.store, "--workers", 2)
    assert show(run.store) == undisturbed
