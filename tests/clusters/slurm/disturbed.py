"""A study on SLURM whose run is disturbed, and what must hold afterwards."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from commands import MECHANISM, Chunk, Started, calls, committed, contents, hold, release, show, started, write_study
from journals import records
from throwaway import Job, ThrowawaySlurm

from hpcdp.clusters.slurm import driver_name, job_folder
from hpcdp.store.layout import Layout

# What steers the mechanism lies in files beside it, so that all studies are one: as slow as `pause` says, and held as
# `hold` says, it leaves a file for each job that drew, with a line a chunk, and ends its process when it is to draw the
# chunk that `poison` names.
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
    words = f"{rng.bit_generator.state['state']['state']:x}"
    with open(os.path.join(os.path.dirname(LOG), "drew-" + os.environ.get("SLURM_JOB_ID", "here")), "a") as file:
        file.write(words + "\\n")
    if read("poison") == words:
        os._exit(1)
    hold()
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
PAUSE = 0.15  # seconds a chunk of the trial draws, and until a run is held: tasks are the smaller the slower draws are
BUSY = 1  # record, of some 25, after which a run is disturbed, and disturbed again
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
        time.sleep(0.25)


def set_pause(folder: Path, seconds: float) -> None:
    """Seconds that the steered mechanism of a folder takes for a chunk, from now on."""
    written = folder / "pause.new"
    written.write_text(str(seconds))
    written.replace(folder / "pause")  # a worker that reads meanwhile sees the one or the other


class Disturbed:
    """A study in a folder of its own, with a profile of two worker jobs. profile: what differs from the usual.

    Its run is held while it is disturbed: it cannot be over before, however long SLURM takes.
    """

    def __init__(self, folder: Path, slurm: ThrowawaySlurm, pause: float = PAUSE, **profile: str) -> None:
        self.folder, self.slurm = folder, slurm
        self.study, self.store, self.profile = write_study(folder, **SETTINGS), folder / "s.zarr", folder / "p.toml"
        usual = {"drain": "10s", "no_worker_timeout": "2m", "queue": "main", "walltime": "10m"}
        self.profile.write_text(PROFILE.format(**{**usual, **profile}))
        self.set_pause(pause)
        self.name = job_folder(Layout(self.store), "s").name
        self.known: list[tuple[dict[Any, Any], set[Chunk], int]] = []

    def set_pause(self, seconds: float) -> None:
        """Seconds a chunk, from now on."""
        set_pause(self.folder, seconds)

    def release(self) -> None:
        """Let it go on to its end."""
        release(self.folder)

    @contextmanager
    def begun(self) -> Iterator[Started]:
        """A run whose two jobs have drawn and are held, and some of whose records are there."""
        self.hold_after(BUSY)
        with started("run", self.study, "--store", self.store, "--cluster", self.profile, folder=self.folder) as driver:
            self.wait_until_held(2)
            self.set_pause(0.1)  # records come half a second later
            assert driver.poll() is None
            yield driver

    def hold_after(self, more: int) -> None:
        """Let it go on until there are so many more records."""
        self.enough = len(records(self.store)) + more
        hold(self.folder, self.store, self.enough)

    def wait_until_held(self, jobs: int) -> None:
        """Wait until work is done, so many jobs were started in all, and two of them draw; remember what is there."""
        wait_until(lambda: len(records(self.store)) >= self.enough, "records")
        self.wait_until_busy(jobs)
        self.remember()

    def wait_until_busy(self, jobs: int) -> None:
        """Wait until so many jobs were started in all, and two of them draw."""
        wait_until(lambda: len(self.busy_jobs()) == 2 and len(self.jobs()) == jobs, f"two jobs of {jobs} that draw")

    def remember(self) -> None:
        """Look at what is committed now, and how far the log of calls is."""
        done, self.moment = committed(self.store), time.monotonic()
        self.known.append((contents(self.store), done, len(calls(self.folder, self.store))))
        assert done
        assert len(done) < CHUNKS, "the run was too fast to be disturbed"

    def jobs(self, *states: str) -> list[Job]:
        """The worker jobs, in some states or in all; those that ended too."""
        return [job for job in self.slurm.jobs(self.name) if not states or job.state in states]

    def busy_jobs(self) -> list[Job]:
        """Worker jobs that run and have drawn."""
        return [job for job in self.jobs("RUNNING") if (self.folder / f"drew-{job.id}").exists()]

    def drawn(self, job: Job) -> list[str]:
        """A line for each chunk that a job began to draw."""
        return (self.folder / f"drew-{job.id}").read_text().splitlines()

    def worker(self, job: Job) -> psutil.Process:
        """The process of a job that computes."""
        (found,) = [process for process in self.slurm.processes(job.id) if process.name() == "hpcdp-child"]
        return found

    def worker_of_dask(self, job: Job) -> psutil.Process:
        """The process of a job that talks to the scheduler."""
        (found,) = [one for one in self.slurm.processes(job.id) if "distributed.cli.dask_worker" in one.cmdline()]
        return found

    def end(self, driver: Started, code: int = 0) -> str:
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
        drawn = calls(self.folder, self.store)
        for before, done, position in self.known:
            assert {path: after.get(path) for path in before} == before, "what was committed did not change"
            assert not done & set(drawn[position:]), "no committed chunk was drawn again"
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
