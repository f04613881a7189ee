"""Runs that are killed, interrupted, or extended: nothing that is committed is lost, computed again, or changed."""

from __future__ import annotations

import os
import pty
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from commands import (
    calls,
    committed,
    contents,
    hpcdp,
    kill_group,
    members,
    records,
    show,
    started,
    wait_until,
    write_study,
)

SLOW = {"train": 4000, "test": 12000, "chunk": 500, "parameters": {"pause": 0.02}}
KILLS = 5


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The JSON of a study that one worker ran from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    store = folder / "s.zarr"
    hpcdp("run", write_study(folder, **SLOW), "--store", store, "--workers", 1, folder=folder)
    counts = Counter(calls(folder, store))
    assert set(counts.values()) == {1}, "with kept samples every chunk is drawn once"
    assert set(counts) == committed(store)
    return show(store)


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["all", "none"])
def test_killed_again_and_again(keep: str, tmp_path: Path, undisturbed: str) -> None:
    chance = random.Random(f"kills {keep}")
    study, store = write_study(tmp_path, keep=keep, **SLOW), tmp_path / "s.zarr"
    command: tuple[object, ...] = ("run", study, "--store", store)
    drawn: list[tuple[str, str, int]] = []
    done: set[tuple[str, str, int]] = set()
    for _ in range(KILLS):
        before = contents(store)
        more = len(records(store)) + chance.randint(1, 2)
        with started(*command, "--workers", 2, folder=tmp_path) as process:
            wait_until(lambda more=more: len(records(store)) >= more, "more records")
            time.sleep(chance.uniform(0.0, 0.2))
            assert process.poll() is None, "the run was too fast to be killed"
            kill_group(process)
        after = contents(store)
        assert {path: after[path] for path in before} == before, "what was committed did not change"
        new = calls(tmp_path, store)[len(drawn) :]
        assert not done & set(new), "no committed chunk was drawn again"
        drawn += new
        done = committed(store)
        command = ("resume", store)
    before = contents(store)
    hpcdp("resume", store, "--workers", 2, folder=tmp_path)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    assert not done & set(calls(tmp_path, store)[len(drawn) :])
    if keep == "all":  # where nothing is kept, each task draws the D of its pairs for itself
        assert max(Counter(calls(tmp_path, store)).values()) <= 1 + KILLS
    assert show(store) == undisturbed


SLEEPY = {"train": 1000, "test": 20000, "chunk": 500, "parameters": {"pause": 0.05}}


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C in a terminal, then SIGTERM to the whole group as a batch system sends it: both end soon, and quietly."""
    study, store = write_study(tmp_path, databases=[[0.0, 1.0]], **SLEEPY), tmp_path / "s.zarr"
    for number, command in ((signal.SIGINT, ("run", study, "--store", store)), (signal.SIGTERM, ("resume", store))):
        more = len(records(store)) + 1
        with started(*command, "--workers", 2, folder=tmp_path) as process:
            wait_until(lambda more=more: len(records(store)) >= more, "one more record")
            begin = time.monotonic()
            os.killpg(process.pid, number)
            out, err = process.communicate(timeout=30)
            seconds = time.monotonic() - begin
            assert process.returncode == 130, err
            assert not members(process), "no worker is left behind"
        assert seconds < 12
        words = [line for line in err.splitlines() if line and not line.startswith((" ", "plan of", "check stored"))]
        assert words == [f"hpcdp: interrupted; what is committed is kept; go on with: hpcdp resume {store}"]
        assert out == ""
    hpcdp("resume", store, folder=tmp_path)
    whole = write_study(tmp_path / "whole", databases=[[0.0, 1.0]], **{**SLEEPY, "parameters": {}})
    assert whole
