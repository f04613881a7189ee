"""One contract for runs whose driver is a job: the same bytes, interruptions that lose nothing, failures by name."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from commands import call, calls, committed, contents, hold, release, show, wait_until, write_study
from disturbed import STEERED, set_pause
from journals import records
from throwaway import ThrowawaySlurm

ROOT = Path(__file__).parents[3]
PAUSE = 0.05  # seconds a chunk
SLOW = 0.8  # so that four workers need longer for what is left than a busy machine to interrupt
SECONDS = 300.0

ALLOCATION = """
[cluster]
driver = "allocation"
dashboard = true
interface = "lo"
no_worker_timeout = "60s"
drain = "15s"
poll = "1s"
[worker]
cores = 2
processes = 2
memory = "2GB"
walltime = "10m"
[size]
nodes = 2
"""

FAILING = (
    STEERED
    + """

def fails(database, size, rng):
    while size == 400 and read("late"):
        time.sleep(0.05)
    if size == 400 and read("broken"):
        raise ValueError("no chunk of 400")
    return steered(database, size, rng)
"""
)
STUDY = {
    "mechanism": FAILING,
    "call": "own:fails",
    "databases": [[i / 4 for i in range(10)]],
    "train": 2000,
    "test": 4400,
    "chunk": 500,
}


class Submitted:
    """A place where the driver is a job of its own."""

    def __init__(self, slurm: ThrowawaySlurm, profile: Path) -> None:
        self.slurm, self.profile = slurm, profile

    def submit(self, study: Path, store: Path) -> int:
        """Submit; the job's id, which is all that stdout holds."""
        return int(call("submit", study, "--profile", self.profile, "--store", store).stdout)

    def resume(self, folder: Path, store: Path, code: int = 0) -> str:
        """Submit the study again, which goes on with its store, and wait for the driver's end; returns its log."""
        job = self.submit(folder / "study.toml", store)
        end = self.slurm.wait_for(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", seconds=SECONDS)
        log = (store / "jobs" / "logs" / f"driver-{job}.log").read_text()
        assert end.state == ("FAILED" if code else "COMPLETED"), log
        assert "Traceback" not in log
        return log

    @contextmanager
    def begun(self, study: Path, store: Path) -> Iterator[int]:
        """A run that goes on, and is cancelled at the end of the context; the driver's job."""
        job = self.submit(study, store)
        yield job
        said = call("cancel", store).stdout
        assert f"driver job {job}" in said
        self.slurm.wait_for(job, "COMPLETED", "FAILED", "CANCELLED")
        assert not [j for j in self.slurm.jobs() if j.state in ("RUNNING", "PENDING")]

    def look(self, job: int, study: Path, store: Path) -> None:
        """While it runs: the driver is called by its node, so that status tells where to look, and is the only one."""
        wait_until(lambda: "ssh -L" in call("status", store).stdout, "a heartbeat that tells of it", SECONDS)
        status, node = call("status", store).stdout, self.slurm.node_of(job)
        assert f"on {node}" in status
        assert f"driver job     {job} running on {node}" in status
        assert "worker job" in status or "allocation" in self.profile.name
        (line,) = [line for line in status.splitlines() if "ssh -L" in line]
        port = int(line.split("ssh -L ")[1].split(":")[0])
        links = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        assert [c.laddr.ip for c in links if c.laddr.port == port] == ["127.0.0.1"], "on loopback only"
        again = call("submit", study, "--profile", self.profile, "--store", store, code=1)
        assert f"job {job} runs this store already" in again.stderr
        assert os.environ.get("SLURMD_NODENAME") is None
        assert sys.executable in (store / "jobs" / "driver.sh").read_text()


@pytest.fixture(params=[pytest.param("elastic", marks=pytest.mark.release), "allocation"])
def place(request: pytest.FixtureRequest, tmp_path: Path, clean_slurm: ThrowawaySlurm) -> Submitted:
    """Jobs as they are needed, and one fixed allocation; drivers outside a job are those of the other files."""
    profile, text = tmp_path / f"{request.param}.toml", ALLOCATION
    if request.param == "elastic":
        text = (ROOT / "slurm" / "test.toml").read_text().replace("[cluster]", "[cluster]\ndashboard = true")
    profile.write_text(text)
    return Submitted(clean_slurm, profile)


@pytest.fixture(scope="module", name="undisturbed")
def undisturbed_fixture(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> str:
    """The JSON of the study, run on this machine from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    study, store = write_study(folder, **STUDY), folder / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    assert json.loads(show(store))["complete"] is True
    return show(store)


@pytest.mark.slow
def test_interrupted_then_failing_then_complete(place: Submitted, tmp_path: Path, undisturbed: str) -> None:
    """What holds wherever tasks run: the same bytes after an interruption, and after a failure that is named."""
    folder = tmp_path / "where I work"
    study, store = write_study(folder, **STUDY), folder / "s 1.zarr"
    set_pause(folder, PAUSE)
    hold(folder, store, 2)
    (folder / "late").write_text("yes")  # what is to fail later is not drawn before, however long an interruption takes
    with place.begun(study, store) as job:
        wait_until(lambda: len(records(store)) >= 2, "two records", SECONDS)
        place.look(job, study, store)
        set_pause(folder, SLOW)
        release(folder)
    (folder / "late").unlink()
    set_pause(folder, 0.0)
    for code in (1, 0):
        before, done, drawn = contents(store), committed(store), calls(folder, store)
        assert len(before) > 0
        assert json.loads(show(store))["complete"] is False
        if code:
            (folder / "broken").write_text("yes")
        else:
            (folder / "broken").unlink()
        said = place.resume(folder, store, code)
        if code:
            assert "test chunk 8 of" in said
            assert "no chunk of 400" in said
            assert "hpcdp resume" in said
        after, again = contents(store), calls(folder, store)[len(drawn) :]
        assert {path: after[path] for path in before} == before, "what was committed did not change"
        assert not done & set(again), "no committed chunk was drawn again"
        twice = sum(count > 1 for count in Counter(drawn + again).values())
        print(f"{len(done)} chunks were committed when it went on, {twice} were computed twice")
    assert show(store) == undisturbed
