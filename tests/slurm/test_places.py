"""One contract for every place where tasks run: the same bytes, interruptions that lose nothing, failures by name."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import call, calls, committed, contents, hpcdp, records, show, started, wait_until, write_study
from disturbed import STEERED, set_pause
from throwaway import ThrowawaySlurm

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "workflows" / "diabetes_mean.toml"
SLOW = {"mechanism": STEERED, "call": "own:steered", "train": 4000, "test": 12000, "chunk": 500}
PAUSE, HELD = 0.05, 1.5  # seconds a chunk; held, four workers take a minute for the rest, however loaded they are
SECONDS = 120.0

ALLOCATION = """
[cluster]
driver = "allocation"
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

FAILING = '''
import os


def fails(database, size, rng):
    """Laplace noise on a sum; a chunk of 400 fails while a file is there."""
    if size == 400 and os.path.exists(os.path.join(os.path.dirname(__file__), "broken")):
        raise ValueError("no chunk of 400")
    return database.sum() + rng.laplace(size=size)
'''


class Here:
    """A place that `run` and `resume` are told of with --cluster; the driver is a process of this machine."""

    def __init__(self, *options: object) -> None:
        self.options = options

    def run(self, folder: Path, study: Path, store: Path, code: int = 0) -> str:
        """Run to the end; returns what the driver said."""
        done = hpcdp("run", study, "--store", store, *self.options, folder=folder, code=code)
        return done.stdout + done.stderr

    def resume(self, folder: Path, store: Path) -> None:
        """Go on to the end."""
        hpcdp("resume", store, *self.options, folder=folder)

    @contextmanager
    def begun(self, folder: Path, study: Path, store: Path) -> Iterator[None]:
        """A run that goes on, and is interrupted as a batch system does at the end of the context."""
        with started("run", study, "--store", store, *self.options, folder=folder) as process:
            yield
            process.send_signal(signal.SIGTERM)
            _, error = process.communicate(timeout=60)
            assert process.returncode == 130, error
            assert f"hpcdp resume {store}" in error
            assert "Traceback" not in error


class Submitted:
    """A place where the driver is a job of its own."""

    def __init__(self, slurm: ThrowawaySlurm, profile: Path) -> None:
        self.slurm, self.profile = slurm, profile

    def submit(self, folder: Path, study: Path, store: Path) -> int:
        """Submit; the job's id, which is all that stdout holds."""
        return int(hpcdp("submit", study, "--profile", self.profile, "--store", store, folder=folder).stdout)

    def run(self, folder: Path, study: Path, store: Path, code: int = 0) -> str:
        """Submit, wait for the driver's end; returns its log."""
        job = self.submit(folder, study, store)
        end = self.slurm.wait_for(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", seconds=SECONDS)
        log = (store / "jobs" / "logs" / f"driver-{job}.log").read_text()
        assert end.state == ("FAILED" if code else "COMPLETED"), log
        assert "Traceback" not in log
        return log

    def resume(self, folder: Path, store: Path) -> None:
        """Submit the study again, which goes on with its store."""
        self.run(folder, folder / "study.toml", store)

    @contextmanager
    def begun(self, folder: Path, study: Path, store: Path) -> Iterator[None]:
        """A run that goes on, and is cancelled at the end of the context."""
        job = self.submit(folder, study, store)
        yield
        said = hpcdp("cancel", store, folder=folder).stdout
        assert f"driver job {job}" in said
        self.slurm.wait_for(job, "COMPLETED", "FAILED", "CANCELLED")
        assert not [j for j in self.slurm.jobs() if j.state in ("RUNNING", "PENDING")]


@pytest.fixture(scope="module", params=["local", "address", "elastic", "submitted", "allocation"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, slurm: ThrowawaySlurm, scheduler: str
) -> Here | Submitted:
    """This machine, a scheduler's address, SLURM with the driver outside and inside a job, one fixed allocation."""
    elastic = ROOT / "slurm" / "test.toml"
    allocation = tmp_path_factory.mktemp("profile") / "allocation.toml"
    allocation.write_text(ALLOCATION)
    places = {
        "local": lambda: Here("--workers", 2),
        "address": lambda: Here("--cluster", scheduler),
        "elastic": lambda: Here("--cluster", elastic),
        "submitted": lambda: Submitted(slurm, elastic),
        "allocation": lambda: Submitted(slurm, allocation),
    }
    return places[request.param]()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The JSON of the quickstart and of the slow study, run on this machine with one worker."""
    folder = tmp_path_factory.mktemp("undisturbed")
    found = {}
    for name, study in (("quickstart", QUICKSTART), ("slow", write_study(folder, **SLOW))):
        hpcdp("run", study, "--store", folder / f"{name}.zarr", "--workers", 1, folder=folder)
        found[name] = show(folder / f"{name}.zarr")
    return found


@pytest.mark.slow
class TestPlace:
    """What holds wherever tasks run."""

    def test_same_bytes(self, place: Here | Submitted, tmp_path: Path, undisturbed: dict[str, str]) -> None:
        store = tmp_path / "quick start.zarr"
        place.run(tmp_path, QUICKSTART, store)
        assert show(store) == undisturbed["quickstart"]
        assert json.loads(show(store))["complete"] is True

    def test_interrupted_and_resumed(
        self, place: Here | Submitted, tmp_path: Path, undisturbed: dict[str, str]
    ) -> None:
        study, store = write_study(tmp_path, **SLOW), tmp_path / "s.zarr"
        set_pause(tmp_path, PAUSE)
        with place.begun(tmp_path, study, store):
            wait_until(lambda: len(records(store)) >= 2, "two records", SECONDS)
            set_pause(tmp_path, HELD)
        set_pause(tmp_path, PAUSE)
        before, done, drawn = contents(store), committed(store), calls(tmp_path, store)
        assert json.loads(show(store))["complete"] is False
        place.resume(tmp_path, store)
        after, again = contents(store), calls(tmp_path, store)[len(drawn) :]
        assert {path: after[path] for path in before} == before, "what was committed did not change"
        assert not done & set(again), "no committed chunk was drawn again"
        assert show(store) == undisturbed["slow"]
        twice = sum(count > 1 for count in Counter(drawn + again).values())
        print(f"{len(done)} chunks were committed when the run ended, {twice} were computed twice")

    def test_failure_is_named_and_costs_nothing_else(
        self, place: Here | Submitted, tmp_path: Path, scheduler: str
    ) -> None:
        settings = {"call": "own:fails", "test": 4400, "databases": [[0.0, 1.0]]}
        study, store = write_study(tmp_path, FAILING, **settings), tmp_path / "s.zarr"
        (tmp_path / "broken").touch()
        said = place.run(tmp_path, study, store, code=1)
        assert "test chunk 8 of" in said
        assert "no chunk of 400" in said
        assert "hpcdp resume" in said
        before = contents(store)
        assert len(before) > 0
        (tmp_path / "broken").unlink()
        place.resume(tmp_path, store)
        after = contents(store)
        assert {path: after[path] for path in before} == before
        call("run", study, "--store", tmp_path / "sound.zarr", "--cluster", scheduler)
        assert show(store) == show(tmp_path / "sound.zarr")


def test_the_lease_of_this_machine_is_not_that_of_a_node(tmp_path: Path, clean_slurm: ThrowawaySlurm) -> None:
    """A driver in a job is called by its node, so that status tells where to look."""
    profile = tmp_path / "dashboard.toml"
    profile.write_text((ROOT / "slurm" / "test.toml").read_text().replace("[cluster]", "[cluster]\ndashboard = true"))
    place = Submitted(clean_slurm, profile)
    study, store = write_study(tmp_path, **SLOW), tmp_path / "s.zarr"
    set_pause(tmp_path, HELD)
    job = place.submit(tmp_path, study, store)
    wait_until(lambda: bool(records(store)), "a record", SECONDS)
    node = clean_slurm.node_of(job)
    status = hpcdp("status", store, folder=tmp_path).stdout
    assert f"on {node}" in status
    assert f"driver job     {job} running on {node}" in status
    assert "worker job" in status
    assert "ssh -L" in status
    again = hpcdp("submit", study, "--profile", place.profile, "--store", store, folder=tmp_path, code=1)
    assert f"job {job} runs this store already" in again.stderr
    hpcdp("cancel", store, folder=tmp_path)
    assert os.environ.get("SLURMD_NODENAME") is None
    assert sys.executable in (store / "jobs" / "driver.sh").read_text()
