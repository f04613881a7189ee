"""Runs that are killed, interrupted, or extended: nothing that is committed is lost, computed again, or changed."""

from __future__ import annotations

import os
import pty
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from commands import (
    COMMAND,
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


def test_interrupted(tmp_path: Path, undisturbed: str) -> None:
    """Ctrl-C and SIGTERM to the whole group, as shells and batch systems send them, end a run soon and quietly."""
    study, store = write_study(tmp_path, **SLOW), tmp_path / "s.zarr"
    for number, command in ((signal.SIGINT, ("run", study, "--store", store)), (signal.SIGTERM, ("resume", store))):
        more = len(records(store)) + 1
        with started(*command, "--workers", 2, folder=tmp_path) as process:
            wait_until(lambda more=more: len(records(store)) >= more, "one more record")
            begin = time.monotonic()
            os.killpg(process.pid, number)
            out, err = process.communicate(timeout=30)
            assert time.monotonic() - begin < 12
            assert process.returncode == 130, err
            wait_until(lambda process=process: not members(process), "no process is left behind", 5)
        news = [line for line in err.splitlines() if line and not line.startswith((" ", "plan of", "check stored"))]
        assert news == [f"hpcdp: interrupted; what is committed is kept; go on with: hpcdp resume {store}"]
        assert out == ""
    hpcdp("resume", store, folder=tmp_path)
    assert show(store) == undisturbed


# gives the command the terminal that is its stdin, as a login does
ON_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_control_c_on_a_terminal(tmp_path: Path) -> None:
    study, store = write_study(tmp_path, **SLOW), tmp_path / "s.zarr"
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", ON_A_TERMINAL, *COMMAND, "run", str(study), "--store", str(store)]
    with subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        screen, typed = b"", 0.0
        while process.poll() is None:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    screen += os.read(ours, 1 << 16)
                except OSError:  # the terminal's other end is closed
                    break
            if not typed and records(store):
                os.write(ours, b"\x03")
                typed = time.monotonic()
            assert not typed or time.monotonic() - typed < 12
        assert process.wait(timeout=10) == 130
    os.close(ours)
    text = screen.decode()
    assert "Traceback" not in text
    assert f"hpcdp resume {store}" in text.replace("\r\n", "")
