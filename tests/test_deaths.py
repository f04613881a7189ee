"""Mechanisms that end their process, and processes that are killed: runs end, name the chunk, and leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from commands import call, contents, hpcdp, show, started, stored_problem, wait_until, write_study

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
    assert line.startswith(f"hpcdp: mechanism.call own:dying: the mechanism's process {how}; ")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("end", ENDS)
def test_a_mechanism_that_ends_its_process_on_some_chunks(end: str, tmp_path: Path, scheduler: str) -> None:
    settings: dict[str, Any] = {"call": "own:dying", "train": 10_000, "test": 40_000, "chunk": 2000}
    settings["pairs"] = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    study, store = write_study(tmp_path, DYING.replace("DEATH", ENDS[end]), **settings), tmp_path / "s.zarr"
    said = hpcdp("run", study, "--store", store, "--workers", 2, folder=tmp_path, code=1).stderr
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


# A worker starts three processes: a child, a child in a session of its own, and a daemon whose parent is gone.
PARENT = """
import os
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
with open(f"/proc/{os.getppid()}/cmdline") as words:
    IS_WORKER = "_keeper.py" in words.read()
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
def test_nothing_that_a_mechanism_started_outlives_its_run(tmp_path: Path) -> None:
    hpcdp("run", parent_study(tmp_path), "--workers", 1, folder=tmp_path)
    assert len((tmp_path / "pids.txt").read_text().split()) >= 3
    assert alive(tmp_path) == []


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="only Linux hands orphans to the keeper")
def test_nothing_that_a_mechanism_started_outlives_a_killed_run(tmp_path: Path) -> None:
    study = parent_study(tmp_path)
    (tmp_path / "hold").touch()
    with started("run", study, "--workers", 1, folder=tmp_path) as process:
        wait_until(lambda: (tmp_path / "pids.txt").exists() and len(alive(tmp_path)) >= 3, "its children are there")
        process.kill()
        wait_until(lambda: alive(tmp_path) == [], "its children are gone")


@pytest.mark.slow
def test_kills_at_random_moments(capsys: pytest.CaptureFixture[str]) -> None:
    """Of workers and keepers, as they start too; `make release-check` has ten times as many, and all kinds of runs."""
    figures = soak.main(small=True)
    assert figures.kills == 20
    print(capsys.readouterr().out)
