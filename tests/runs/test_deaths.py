"""Processes that end, are killed or may open no more files: runs end, name the chunk, and leave nothing behind."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import (
    MECHANISM,
    call,
    hold,
    hpcdp,
    one_message,
    started,
    wait_until,
    write_study,
)

from benchmarks import soak

# A module of the study's own that ends the process at one place; `now` tells which.
ENDING = """
import ctypes
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def now(place):
    try:
        with open(os.path.join(HERE, "now")) as file:
            return file.read() == place
    except FileNotFoundError:
        return False


def noisy(database, size, rng):
    if now("trial") and database.sum() > 0.5:
        os._exit(0)
    if now("segfault"):
        ctypes.string_at(0)
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
"""
GIVEN: dict[str, Any] = {"call": "own:noisy", "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]", "train": 500}
CLASSIFIED = GIVEN["pairs"] + '\n[estimate.parameters]\nclassifier = "own:Classifier"'
LEARNED = {"loss": "learned", "test": 500, "pairs": CLASSIFIED}
ROWS = '[[pairs.distributional]]\ncall = "own:rows"\nindex = [0]\nvalues = [0, 1]'
SEGFAULT = "mechanism.call own:noisy (trial draws): the process was ended by SIGSEGV"


@pytest.mark.few
@pytest.mark.parametrize(
    "command, place, changes, words",
    [
        ("plan", "trial", {}, "mechanism.call own:noisy (trial draws): the process ended with exit code 0"),
        ("run", "segfault", {}, SEGFAULT),
        ("plan", "import", {}, "mechanism.call own:noisy (import): the process ended with exit code 0"),
        ("plan", "", {"pairs": 'relative = { call = "own:databases" }'}, "pairs.relative.call own:databases: the pro"),
        ("plan", "", {"pairs": ROWS}, "pairs.distributional.0.call own:rows: the process ended with exit code 0"),
        ("plan", "fit", LEARNED, "estimate.loss learned (trial): the process ended with exit code 0"),
    ],
)
def test_code_that_ends_the_process_while_the_study_is_tried_out(command, place, changes, words, tmp_path, monkeypatch):
    """Even with the second database: one line names what it was, and no script takes it for success."""
    study = write_study(tmp_path, ENDING, **{**GIVEN, **changes})
    (tmp_path / "now").write_text(place)
    monkeypatch.chdir(tmp_path)
    done = call(command, study, code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"hpcdp: {words}")
    assert done.stdout == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.promise
@pytest.mark.slow
def test_a_classifier_that_ends_a_sequential_audit(tmp_path: Path, scheduler: str) -> None:
    study = write_study(tmp_path, ENDING, **{**GIVEN, **LEARNED}, claim="laplace(epsilon=0.2)")
    (tmp_path / "now").write_text("learn")
    rounds = (
        "--store",
        tmp_path / "s.zarr",
        "--sequential",
        "--batch",
        2000,
        "--budget",
        4000,
        "--format",
        "json",
        "--cluster",
        scheduler,
    )
    done = call("audit", study, "--store", tmp_path / "s.zarr", *rounds, code=1)
    assert done.stderr.splitlines()[-1] == "hpcdp: estimate.loss learned (learning): the process ended with exit code 0"


# Starts three processes: a child, a child in a session of its own, and a daemon whose parent is gone.
PARENT = f"""{MECHANISM}
import subprocess

STARTED = []


def parent(database, size, rng):
    if not STARTED and on_worker():
        STARTED.append(subprocess.Popen(["sleep", "1000"]).pid)
        STARTED.append(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)
        daemon = "setsid sleep 1000 >/dev/null 2>&1 & echo $!"
        STARTED.append(int(subprocess.check_output(daemon, shell=True, text=True)))
        with open(LOG + ".pids", "a") as lines:
            print(*STARTED, file=lines)
    return noisy(database, size, rng)
"""


def alive(folder: Path) -> list[int]:
    """The processes that the mechanism started and that have not ended."""
    found = []
    for word in (folder / "calls.log.pids").read_text().split():
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(int(word)).status() != psutil.STATUS_ZOMBIE:
                found.append(int(word))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to the process that ends them")
@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_that_a_mechanism_started_outlives_a_killed_run(workers: int, tmp_path: Path) -> None:
    study = write_study(tmp_path, PARENT, call="own:parent", rows=[0], databases=[[0.0, 1.0]])
    store = tmp_path / "s.zarr"
    hold(tmp_path, store, 0)
    with started("run", study, "--store", store, "--workers", workers, folder=tmp_path) as process:
        wait_until(
            lambda: (tmp_path / "calls.log.pids").exists() and len(alive(tmp_path)) >= 3, "its children are there"
        )
        process.kill()
        wait_until(lambda: alive(tmp_path) == [], "its children are gone")


@pytest.mark.slow
def test_a_thread_of_its_module_keeps_no_command_from_its_end(tmp_path: Path) -> None:
    own = f"{ENDING}\nimport threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
    assert "pairs" in hpcdp("plan", write_study(tmp_path, own, **GIVEN), folder=tmp_path).stdout


@pytest.mark.slow
def test_kills_at_random_moments(capsys: pytest.CaptureFixture[str]) -> None:
    """Of children and servers, in runs of four kinds; `make release-check` has all kinds, and seventeen times as many."""
    figures = soak.main(small=True)
    assert figures.kills == 12
    print(capsys.readouterr().out)


SMALL = {"databases": [[0.0, 1.0]], "train": 1000, "test": 1000}


def limited(files: int) -> list[str]:
    """Begin a command with a limit of open files."""
    return ["/bin/sh", "-c", f'ulimit -n {files} && exec "$@"', "sh"]


@pytest.mark.slow
def test_a_run_needs_few_open_files(tmp_path: Path) -> None:
    """A scheduler more; what is too few is refused before anything is drawn."""
    study = write_study(tmp_path, **SMALL)
    hpcdp("run", study, "--workers", "2", folder=tmp_path, prefix=limited(40))
    line = one_message(hpcdp("run", study, "--dashboard", folder=tmp_path, prefix=limited(40), code=2))
    assert re.search(r"a run on Dask's workers: needs \d+ open files .* given: a limit of 40 \(ulimit -Hn\)", line)
    soft = ["/bin/sh", "-c", 'ulimit -Sn 40 && exec "$@"', "sh"]
    hpcdp("run", study, "--dashboard", folder=tmp_path, prefix=soft)
