"""Mechanisms that end their process, and processes that are killed: runs end, name the chunk, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from commands import (
    LONG,
    MECHANISM,
    call,
    contents,
    hold,
    hpcdp,
    release,
    show,
    started,
    stored_problem,
    wait_until,
    write_study,
)

from benchmarks import soak
from hpcdp.keys import stream

# Ends its process on chunks whose first output says so, unless it is mended.
DYING = """
import ctypes
import os

import numpy as np

MENDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mended")


def dies(first):
    return int(np.float64(first).view(np.int64)) % 11 == 0


def dying(database, size, rng):
    outputs = database.sum() + rng.laplace(size=size)
    if size >= 2000 and dies(outputs[0]) and not os.path.exists(MENDED):
        DEATH
    return outputs
"""
ENDS = {"exit": "os._exit(1)", "segfault": "ctypes.string_at(0)"}


def expected_deaths(store: Path) -> set[str]:
    """The first chunk of every block that ends the process, or else the task, in words."""
    problem = stored_problem(store)
    found = set()
    for law in problem.laws:
        for stage in (problem.train, problem.test):
            for block in range(stage.blocks):
                for chunk in stage.block_chunks(block):
                    first = problem.laws[law].sum() + stream(problem.study.seed, law, stage.name, chunk).laplace(size=1)
                    if int(first.view(np.int64)[0]) % 11 == 0:
                        found.add(f"at {stage.name} chunk {chunk} of {problem.describe_law(law)}")
                        break
    return found


@pytest.mark.parametrize("command, end", [("plan", "os._exit(0)"), ("run", "ctypes.string_at(0)")])
def test_trial_draws_that_end_the_process(command: str, end: str, tmp_path: Path) -> None:
    """Even those of a second database: one line names the mechanism, and no script takes it for success."""
    dying = DYING.replace("DEATH", end).replace("size >= 2000 and dies(outputs[0])", "database.sum() > 0.5")
    study = write_study(tmp_path, dying, call="own:dying", pairs="given = [ { d = [0.0], d_prime = [1.0] } ]")
    (line,) = hpcdp(command, study, folder=tmp_path, code=2).stderr.splitlines()
    how = {"os._exit(0)": "ended with exit code 0", "ctypes.string_at(0)": "was ended by SIGSEGV"}[end]
    assert line == f"hpcdp: mechanism.call own:dying (trial draws): the process {how}"
    assert not (tmp_path / "runs").exists()


# A module of the study's own that ends the process at one place; `now` tells which.
ENDING = """
import os
import subprocess
import threading
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def now(place):
    try:
        with open(os.path.join(HERE, "now")) as file:
            return file.read() == place
    except FileNotFoundError:
        return False


def noisy(database, size, rng):
    if now("trial"):
        os._exit(0)
    if now("away"):
        os.chdir(os.path.join(HERE, "away"))
    if now("copy"):
        os.fork()
    if now("child"):
        with open(os.path.join(HERE, "pids.txt"), "a") as lines:
            lines.write(f"{subprocess.Popen(['sleep', '1000'], start_new_session=True).pid}\\n")
    return database.sum() + rng.laplace(size=size)


def databases():
    os._exit(0)


def rows(size, rng):
    os._exit(0)


class Classifier:
    def fit(self, x, y):
        if now("fit") or len(y) > 400 and now("learn"):
            os._exit(0)
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, x):
        return np.full((len(x), 2), 0.5)


if now("import"):
    os._exit(0)
if now("thread"):
    threading.Thread(target=time.sleep, args=(1000,)).start()
"""
GIVEN: dict[str, Any] = {"call": "own:noisy", "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]", "train": 500}
CLASSIFIED = GIVEN["pairs"] + '\n[estimate.parameters]\nclassifier = "own:Classifier"'
LEARNED = {"loss": "learned", "test": 500, "pairs": CLASSIFIED}


@pytest.mark.parametrize(
    "place, changes, words",
    [
        ("import", {}, "mechanism.call own:noisy (import)"),
        ("", {"pairs": 'relative = { call = "own:databases", rows = [0] }'}, "pairs.relative.call own:databases"),
        (
            "",
            {"pairs": '[[pairs.distributional]]\ncall = "own:rows"\nindex = [0]\nvalues = [0, 1]'},
            "pairs.distributional.0.call own:rows",
        ),
        ("fit", LEARNED, "estimate.loss learned (trial)"),
    ],
)
def test_code_that_ends_the_process_while_the_study_is_tried_out(
    place: str, changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    study = write_study(tmp_path, ENDING, **{**GIVEN, **changes})
    (tmp_path / "now").write_text(place)
    done = hpcdp("plan", study, folder=tmp_path, code=2)
    assert done.stderr == f"hpcdp: {words}: the process ended with exit code 0\n"
    assert done.stdout == ""


def test_resume_outlives_what_trial_draws_do(tmp_path: Path, scheduler: str) -> None:
    """They end the process, go elsewhere, or go on as two; a relative store is still the one that was meant."""
    study = write_study(tmp_path, ENDING, **GIVEN, test=500, chunk=500)
    call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler)
    (tmp_path / "away").mkdir()
    (tmp_path / "now").write_text("trial")
    done = hpcdp("resume", "s.zarr", "--cluster", scheduler, folder=tmp_path, code=2)
    assert done.stderr == "hpcdp: mechanism.call own:noisy (trial draws): the process ended with exit code 0\n"
    for place in ("away", "copy"):
        (tmp_path / "now").write_text(place)
        done = hpcdp("resume", "s.zarr", "--cluster", scheduler, folder=tmp_path)
        assert done.stdout.count("store: s.zarr") == 1
    assert not any((tmp_path / "away").iterdir())


def test_a_classifier_that_ends_a_sequential_audit(tmp_path: Path, scheduler: str) -> None:
    study = write_study(tmp_path, ENDING, **{**GIVEN, **LEARNED}, claim="laplace(epsilon=0.2)")
    (tmp_path / "now").write_text("learn")
    rounds = ("--sequential", "--batch", 2000, "--budget", 4000, "--format", "json", "--cluster", scheduler)
    done = hpcdp("audit", study, *rounds, folder=tmp_path, code=1)
    assert done.stderr.splitlines()[-1] == "hpcdp: estimate.loss learned (learning): the process ended with exit code 0"


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="only Linux hands orphans to a command's parent")
def test_what_a_mechanism_leaves_running_ends_with_the_command(tmp_path: Path) -> None:
    """Children of trial draws, and threads of its module."""
    study = write_study(tmp_path, ENDING, **GIVEN)
    (tmp_path / "now").write_text("child")
    assert "pairs" in hpcdp("plan", study, folder=tmp_path).stdout
    assert (tmp_path / "pids.txt").read_text()
    assert alive(tmp_path) == []
    (tmp_path / "now").write_text("thread")
    assert "pairs" in hpcdp("plan", study, folder=tmp_path).stdout


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("end", ENDS)
def test_a_mechanism_that_ends_its_process_on_some_chunks(
    end: str, workers: int, tmp_path: Path, scheduler: str
) -> None:
    settings: dict[str, Any] = {"call": "own:dying", "train": 10_000, "test": 40_000, "chunk": 2000}
    settings["pairs"] = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    study, store = write_study(tmp_path, DYING.replace("DEATH", ENDS[end]), **settings), tmp_path / "s.zarr"
    said = hpcdp("run", study, "--store", store, "--workers", workers, folder=tmp_path, code=1).stderr
    words = expected_deaths(store)
    lines = [
        line.removesuffix(" (needed by 1 more)") for line in said.splitlines() if "ended its worker process" in line
    ]
    assert len(lines) == len(words) > 1
    assert {line[line.index("at ") :] for line in (line.partition("each time it ran, ")[2] for line in lines)} == words
    assert not any((store / "records" / "draws").iterdir())
    before = contents(store)
    assert len(before) > 0, "all else is stored"
    (tmp_path / "mended").touch()
    call("resume", store, "--cluster", scheduler)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    call("run", study, "--store", tmp_path / "whole.zarr", "--cluster", scheduler)
    assert show(store) == show(tmp_path / "whole.zarr")


# The first call on a worker ends its process; a later one notes, a while afterwards, how many keepers there are.
LEAVING = """
import os
import time

import psutil

FIRST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "first")
with open(f"/proc/{os.getppid()}/comm") as words:
    IS_WORKER = words.read().strip() == "hpcdp-keeper"


def leaving(database, size, rng):
    if IS_WORKER:
        try:
            os.close(os.open(FIRST, os.O_CREAT | os.O_EXCL))
            os._exit(83)
        except FileExistsError:
            time.sleep(max(0.0, os.stat(FIRST).st_mtime + 3.0 - time.time()))
        with open(FIRST + "-after", "a") as file:
            print(len(psutil.Process().parent().parent().children()), file=file)
    return database.sum() + rng.laplace(size=size)
"""


def test_a_worker_that_ended_is_replaced_whatever_its_exit_code(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"call": "own:leaving", "train": 4000, "test": 4000, "chunk": 1000}
    study = write_study(tmp_path, LEAVING, **settings, pairs=GIVEN["pairs"])
    hpcdp("run", study, "--store", tmp_path / "s.zarr", "--workers", 2, folder=tmp_path)
    assert (tmp_path / "first-after").read_text().split()[-1] == "2"


# A worker starts three processes: a child, a child in a session of its own, and a daemon whose parent is gone.
PARENT = """
import os
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
with open(f"/proc/{os.getppid()}/comm") as words:
    IS_WORKER = words.read().strip() == "hpcdp-keeper"
STARTED = []


def note(pid):
    with open(os.path.join(HERE, "pids.txt"), "a") as lines:
        lines.write(f"{pid}\\n")


def parent(database, size, rng):
    if IS_WORKER and not STARTED:
        STARTED.append(True)
        note(subprocess.Popen(["sleep", "1000"]).pid)
        note(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)
        note(subprocess.check_output("setsid sleep 1000 >/dev/null 2>&1 & echo $!", shell=True, text=True).strip())
    while IS_WORKER and os.path.exists(os.path.join(HERE, "hold")):
        time.sleep(0.05)
    return database.sum() + rng.laplace(size=size)
"""


def alive(folder: Path) -> list[int]:
    """The processes that the mechanism started and that have not ended."""
    found = []
    for line in (folder / "pids.txt").read_text().split():
        try:
            if psutil.Process(int(line)).status() != psutil.STATUS_ZOMBIE:
                found.append(int(line))
        except psutil.NoSuchProcess:
            continue
    return found


def parent_study(folder: Path) -> Path:
    return write_study(folder, PARENT, call="own:parent", rows=[0], train=500, test=500, databases=[[0.0, 1.0]])


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="only Linux hands orphans to the keeper")
@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_that_a_mechanism_started_outlives_its_run(workers: int, tmp_path: Path) -> None:
    hpcdp("run", parent_study(tmp_path), "--workers", workers, folder=tmp_path)
    assert len((tmp_path / "pids.txt").read_text().split()) >= 3
    assert alive(tmp_path) == []


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="only Linux hands orphans to the keeper")
@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_that_a_mechanism_started_outlives_a_killed_run(workers: int, tmp_path: Path) -> None:
    study = parent_study(tmp_path)
    (tmp_path / "hold").touch()
    with started("run", study, "--workers", workers, folder=tmp_path) as process:
        wait_until(lambda: (tmp_path / "pids.txt").exists() and len(alive(tmp_path)) >= 3, "its children are there")
        process.kill()
        wait_until(lambda: alive(tmp_path) == [], "its children are gone")


@pytest.mark.slow
def test_kills_at_random_moments(capsys: pytest.CaptureFixture[str]) -> None:
    """Of workers and keepers, in runs of four kinds; `make release-check` has all kinds, and seventeen times as many."""
    figures = soak.main(small=True)
    assert figures.kills == 12
    print(capsys.readouterr().out)


PLACES = [("--workers", "0"), ("--workers", "2"), ("--workers", "2", "--dashboard")]


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux has a command a parent that passes signals on")
@pytest.mark.parametrize("place, whole", [*((place, True) for place in PLACES), (PLACES[1], False)])
def test_a_run_that_is_stopped_goes_on_afterwards(place: tuple[str, ...], whole: bool, tmp_path: Path) -> None:
    """As by Ctrl-Z and `fg`, or by SLURM's suspension, for longer than its parent waits from one look to the next."""
    study, store = write_study(tmp_path, train=1000, test=1000, rows=[0]), tmp_path / "s.zarr"
    hold(tmp_path, store, 0)
    with started("run", study, "--store", store, *place, folder=tmp_path) as process:
        wait_until((tmp_path / "calls.log").exists, "a worker draws")
        top = psutil.Process(process.pid)
        stopped = [top, *(top.children(recursive=True) if whole else [])]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for one in stopped:
                one.send_signal(number)
            time.sleep(1.2 * (number == signal.SIGSTOP))
        release(tmp_path)
        _, said = process.communicate(timeout=LONG)
        assert process.returncode == 0, said
    call("run", study, "--store", tmp_path / "whole.zarr", "--workers", "0")
    assert show(store) == show(tmp_path / "whole.zarr")


@pytest.mark.release
@pytest.mark.parametrize("whole", [True, False], ids=["all of it", "the command alone"])
@pytest.mark.parametrize("place", PLACES, ids=["here", "workers", "dask"])
def test_a_run_that_is_stopped_at_any_moment(place: tuple[str, ...], whole: bool, tmp_path: Path) -> None:
    """Twenty moments each, from the command's start on."""
    study, draws = write_study(tmp_path, parameters={"pause": 0.01}), np.random.default_rng(20240520)
    call("run", study, "--store", tmp_path / "whole.zarr", "--workers", "0")
    for number in range(20):
        store = tmp_path / f"{number}.zarr"
        with started("run", study, "--store", store, *place, folder=tmp_path, by_user=True) as process:
            time.sleep(draws.uniform(0.05, 4.0))
            with suppress(psutil.NoSuchProcess):
                top = psutil.Process(process.pid)
                stopped = [top, *(top.children(recursive=True) if whole else [])]
                for one in stopped:
                    with suppress(psutil.NoSuchProcess):
                        one.suspend()
                time.sleep(draws.uniform(0.1, 1.5))
                for one in stopped:
                    with suppress(psutil.NoSuchProcess):
                        one.resume()
            _, said = process.communicate(timeout=LONG)
        assert process.returncode == 0, said
        assert show(store) == show(tmp_path / "whole.zarr")


# The worker that draws first says who it is.
DRAWER = MECHANISM.replace(
    "    hold()\n",
    """    if on_worker() and not os.path.exists(LOG + ".drawer"):
        with open(LOG + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.replace(LOG + ".new", LOG + ".drawer")
    hold()
""",
)


@pytest.mark.parametrize("later", [0.0, 0.05, 0.2])
def test_workers_that_are_killed_as_they_start(later: float, tmp_path: Path, scheduler: str) -> None:
    """Eight of them, so long after each was forked: others take their place, and the run ends as if nothing had been.

    None of them may draw, since a task that lost its worker three times is rightly set aside.
    """
    study, store = write_study(tmp_path, DRAWER, train=1000, test=1000, rows=[0]), tmp_path / "s.zarr"
    hold(tmp_path, store, 0)
    drawer, killed = tmp_path / "calls.log.drawer", set[int]()

    def enough() -> bool:
        if not drawer.exists():
            return False
        for worker in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if (
                    len(killed) < 8
                    and worker.name() == "hpcdp-worker"
                    and worker.pid not in {int(drawer.read_text()), *killed}
                ):
                    time.sleep(later)
                    worker.kill()
                    killed.add(worker.pid)
        return len(killed) == 8

    with started("run", study, "--store", store, "--workers", 2, folder=tmp_path) as process:
        wait_until(enough, "eight killed workers")
        release(tmp_path)
        _, said = process.communicate(timeout=LONG)
        assert process.returncode == 0, said
    call("run", study, "--store", tmp_path / "whole.zarr", "--cluster", scheduler)
    assert show(store) == show(tmp_path / "whole.zarr")


def test_workers_of_a_job_leave_where_there_is_no_scheduler(tmp_path: Path) -> None:
    """And the job ends: whoever left by himself is not replaced."""
    options = {"name": "unit-1", "nthreads": 1, "nworkers": 2, "death-timeout": "1s", "local-directory": tmp_path}
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    with socket.socket() as nobody:  # a port that nobody listens at
        nobody.bind(("127.0.0.1", 0))
        command = [sys.executable, "-m", "hpcdp.clusters.job_workers", f"tcp://127.0.0.1:{nobody.getsockname()[1]}"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("hpcdp: a worker found no scheduler, or could not start: ") == 2
