"""Runs that are killed, interrupted, or extended: nothing that is committed is lost, computed again, or changed."""

from __future__ import annotations

import json
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
    LONG,
    call,
    calls,
    committed,
    contents,
    hold,
    hpcdp,
    kill_group,
    members,
    release,
    show,
    started,
    wait_until,
    write_study,
)
from journals import records

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
@pytest.mark.parametrize(
    "keep", [pytest.param("all", marks=pytest.mark.release), pytest.param("none", marks=pytest.mark.promise)]
)
def test_killed_again_and_again(keep: str, tmp_path: Path, undisturbed: str, scheduler: str) -> None:
    chance = random.Random(f"kills {keep}")
    study, store = write_study(tmp_path, keep=keep, **SLOW), tmp_path / "s.zarr"
    command: tuple[object, ...] = ("run", study, "--store", store)
    drawn: list[tuple[str, str, int]] = []
    done: set[tuple[str, str, int]] = set()
    for _ in range(KILLS):
        before = contents(store)
        more = len(records(store)) + chance.randint(1, 2)
        hold(tmp_path, store, more + 2)  # it goes on until it is killed, but cannot be done before
        with started(*command, "--workers", 2, folder=tmp_path) as process:
            wait_until(lambda more=more: len(records(store)) >= more, "more records")
            time.sleep(chance.uniform(0.0, 0.2))
            assert process.poll() is None
            kill_group(process)
        after = contents(store)
        assert {path: after[path] for path in before} == before, "what was committed did not change"
        new = calls(tmp_path, store)[len(drawn) :]
        assert not done & set(new), "no committed chunk was drawn again"
        drawn += new
        done = committed(store)
        command = ("resume", store)
    before = contents(store)
    release(tmp_path)
    call("resume", store, "--cluster", scheduler)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    assert not done & set(calls(tmp_path, store)[len(drawn) :])
    times = Counter(calls(tmp_path, store))
    twice = sum(number > 1 for number in times.values())
    most = max(times.values())
    print(f"{KILLS} kills survived; of {len(times)} chunks {twice} were drawn twice or more, the most {most} times")
    if keep == "all":  # where nothing is kept, each task draws the D of its pairs for itself
        assert most <= 1 + KILLS
    assert show(store) == undisturbed


@pytest.mark.slow
def test_interrupted(tmp_path: Path, undisturbed: str, scheduler: str) -> None:
    """Ctrl-C and SIGTERM to the whole group, as shells and batch systems send them, end a run quietly.

    They wait for no chunk: what is drawn at that moment would never be done.
    """
    study, store = write_study(tmp_path, **SLOW), tmp_path / "s.zarr"
    for number, command in ((signal.SIGINT, ("run", study, "--store", store)), (signal.SIGTERM, ("resume", store))):
        more = len(records(store)) + 1
        hold(tmp_path, store, more)
        with started(*command, "--workers", 2, folder=tmp_path, by_user=True) as process:
            wait_until(lambda more=more: len(records(store)) >= more, "one more record")
            os.killpg(process.pid, number)
            out, err = process.communicate(timeout=LONG)
            assert process.returncode == 130, err
            wait_until(lambda process=process: not members(process), "no process is left behind")
        news = [line for line in err.splitlines() if line and not line.startswith((" ", "plan of", "check stored"))]
        assert news == [f"hpcdp: interrupted; what is committed is kept; go on with: hpcdp resume {store}"]
        assert out == ""
    release(tmp_path)
    call("resume", store, "--cluster", scheduler)
    assert show(store) == undisturbed


@pytest.mark.slow
def test_workers_that_end_a_call_once_nobody_hears_them(tmp_path: Path) -> None:
    """They say nothing of it: the run was interrupted, and the driver has told so."""
    study, store = write_study(tmp_path, **SLOW), tmp_path / "s.zarr"
    hold(tmp_path, store, 1)
    with started("run", study, "--store", store, "--workers", 2, folder=tmp_path, by_user=True) as process:
        wait_until(lambda: len(records(store)) >= 1, "a record")
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.5)  # in which the driver leaves; workers get four seconds
        release(tmp_path)
        _, err = process.communicate(timeout=LONG)
    assert process.returncode == 130, err
    said = [line for line in err.splitlines() if line.startswith("hpcdp: ")]
    assert said == [f"hpcdp: interrupted; what is committed is kept; go on with: hpcdp resume {store}"]


# gives the command the terminal that is its stdin, as a login does
ON_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.slow
def test_control_c_on_a_terminal(tmp_path: Path) -> None:
    study, store = write_study(tmp_path, **SLOW), tmp_path / "s.zarr"
    hold(tmp_path, store, 1)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", ON_A_TERMINAL, *COMMAND, "run", str(study), "--store", str(store)]
    with subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        screen, typed, begin = b"", False, time.monotonic()
        while process.poll() is None:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    screen += os.read(ours, 1 << 16)
                except OSError:  # the terminal's other end is closed
                    break
            if not typed and records(store):
                os.write(ours, b"\x03")
                typed = True
            assert time.monotonic() - begin < LONG
        assert process.wait(timeout=LONG) == 130
    os.close(ours)
    text = screen.decode()
    assert "Traceback" not in text
    assert f"hpcdp resume {store}" in text.replace("\r\n", "")


def cells(store: Path) -> dict[tuple[str, str, float], list[list[int]]]:
    """Counts of every cell by what its pair is, not by the pair's number."""
    found = json.loads(show(store))
    assert found["complete"]
    pairs = [json.dumps({k: v for k, v in pair.items() if k != "pair"}) for pair in found["pairs"]]
    return {(pairs[c["pair"]], c["direction"], c["epsilon"]): [c["exceed"], c["test"]] for c in found["cells"]}


@pytest.mark.slow
def test_additions_change_nothing_that_is_there(tmp_path: Path, scheduler: str) -> None:
    store = tmp_path / "s.zarr"
    settings: dict[str, object] = {"rows": [0, 2], "train": 1000, "test": 2250, "databases": [[0.0, 0.5, 1.0, 2.0]]}

    def run(**more: object) -> None:
        settings.update(more)
        call("run", write_study(tmp_path, **settings), "--store", store, "--cluster", scheduler)

    run()
    steps: list[dict[str, object]] = [
        {"epsilons": [0.0, 0.25, 0.5, 1.0, 2.0], "etas": [0.25, 0.5, 1.0]},
        {"rows": "all", "databases": [[0.0, 0.5, 1.0, 2.0], [1.0, 4.0, 5.0]]},
        {"test": 3000},
        {"train": 1500},
    ]
    for step in steps:
        before, known, drawn = contents(store), cells(store), len(calls(tmp_path, store))
        chunks = set(calls(tmp_path, store))
        run(**step)
        after = contents(store)
        assert {path: after[path] for path in before} == before, f"{step} changed what was there"
        if not {"test", "train"} & set(step):
            now = cells(store)
            assert {cell: now[cell] for cell in known} == known
            assert not chunks & set(calls(tmp_path, store)[drawn:]), "no chunk was drawn again"
    shown = call("show", store).stdout
    assert "2250" in shown.replace(",", ""), "the table tells of the smaller test stage that came before"
    call("run", tmp_path / "study.toml", "--store", tmp_path / "anew.zarr", "--cluster", scheduler)
    assert show(tmp_path / "anew.zarr") == show(store), "a store that grew is as one made at once"


def test_other_changes_are_refused_and_named(tmp_path: Path, scheduler: str) -> None:
    store = tmp_path / "s.zarr"
    settings: dict[str, object] = {"rows": [0, 2], "train": 600, "test": 700}
    call("run", write_study(tmp_path, **settings), "--store", store, "--cluster", scheduler)
    before, printed = contents(store), show(store)
    changes: list[tuple[dict[str, object], list[str]]] = [
        (
            {
                "seed": 7,
                "claim": "laplace(epsilon=1)",
                "parameters": {"pause": 0.001},
                "chunk": 250,
                "keep": "none",
                "confidence": 0.9,
                "train": 500,
                "test": 600,
                "epsilons": [0.0, 0.5],
                "etas": [0.5],
                "loss": "frequency",
                "rows": [0],
            },
            ["study.seed", "study.claim", "mechanism.parameters", "pairs.relative.rows"]
            + [
                f"estimate.{key}"
                for key in ("chunk", "keep", "confidence", "train", "test", "epsilons", "etas", "loss")
            ],
        ),
        ({"pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]"}, ["pairs (relative became given)"]),
        (
            {"pairs": 'relative = { databases = [[0.0, 1.0]], relation = "edit", values = [3.0] }'},
            ["pairs.relative.relation", "pairs.relative.values"],
        ),
    ]
    for change, keys in changes:
        study = write_study(tmp_path, **{**settings, **change})
        error = call("run", study, "--store", store, "--cluster", scheduler, code=2).stderr
        message = error.splitlines()[-1]
        assert [key for key in keys if key not in message] == []
        assert "epsilons (points" not in message or "epsilons" in change
    assert contents(store) == before
    assert show(store) == printed
