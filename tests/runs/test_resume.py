"""Runs that are killed, interrupted, or extended: nothing that is committed is lost, computed again, or changed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from commands import (
    LONG,
    call,
    calls,
    committed,
    contents,
    hold,
    kill_group,
    members,
    nothing_lost,
    release,
    show,
    started,
    wait_until,
    write_study,
)
from journals import records

SLOW = {
    "train": 4000,
    "test": 36_000,
    "chunk": 500,
    "parameters": {"pause": 0.02},
}  # of more records than are disturbed
KILLS = 5


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The JSON of a study that one worker ran from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    store = folder / "s.zarr"
    call("run", write_study(folder, **SLOW), "--store", store, "--workers", 1)
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
        more = len(records(store)) + chance.randint(1, 2)
        hold(tmp_path, store, more + 2)  # it goes on until it is killed, but cannot be done before
        with nothing_lost(store), started(*command, "--workers", 2, folder=tmp_path) as process:
            wait_until(lambda more=more: len(records(store)) >= more, "more records")
            time.sleep(chance.uniform(0.0, 0.2))
            assert process.poll() is None
            kill_group(process)
        new = calls(tmp_path, store)[len(drawn) :]
        assert not done & set(new), "no committed chunk was drawn again"
        drawn += new
        done = committed(store)
        command = ("resume", store)
    release(tmp_path)
    with nothing_lost(store):
        call("resume", store, "--cluster", scheduler)
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
        with started(*command, "--workers", 2, folder=tmp_path) as process:
            wait_until(lambda more=more: len(records(store)) >= more, "one more record")
            os.killpg(process.pid, number)
            if number == signal.SIGTERM:  # and a call that ends once nobody hears its worker is not told of either
                time.sleep(0.5)  # in which the driver leaves; workers get four seconds
                release(tmp_path)
            out, err = process.communicate(timeout=LONG)
            assert process.returncode == 130, err
            wait_until(lambda process=process: not members(process), "no process is left behind")
        news = [line for line in err.splitlines() if line and not line.startswith((" ", "plan of", "check stored"))]
        assert news == [f"hpcdp: interrupted; what is committed is kept; go on with: hpcdp resume {store}"]
        assert out == ""
    call("resume", store, "--cluster", scheduler)
    assert show(store) == undisturbed


def test_other_changes_are_refused_and_named(tmp_path: Path, scheduler: str) -> None:
    store = tmp_path / "s.zarr"
    settings: dict[str, object] = {"rows": [0, 2], "train": 600, "test": 700}
    call("run", write_study(tmp_path, **settings), "--store", store, "--cluster", scheduler)
    before, printed = contents(store), show(store)
    smaller = {"train": 500, "test": 600, "epsilons": [0.0, 0.5], "etas": [0.5]}
    others = {"chunk": 250, "keep": "none", "confidence": 0.9, "loss": "frequency", **smaller}
    more = {"seed": 7, "claim": "laplace(epsilon=1)", "parameters": {"pause": 0.001}, "rows": [0]}
    named = ["study.seed", "study.claim", "mechanism.parameters", "pairs.relative.rows"]
    edits = {"pairs": 'relative = { databases = [[0.0, 1.0]], relation = "edit", values = [3.0] }'}
    for change, keys in (
        ({**others, **more}, [*named, *(f"estimate.{key}" for key in others)]),
        ({"pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]"}, ["pairs (relative became given)"]),
        (edits, ["pairs.relative.relation", "pairs.relative.values"]),
    ):
        study = write_study(tmp_path, **{**settings, **change})
        error = call("run", study, "--store", store, "--cluster", scheduler, code=2).stderr
        message = error.splitlines()[-1]
        assert [key for key in keys if key not in message] == []
        assert "epsilons (points" not in message or "epsilons" in change
    assert contents(store) == before
    assert show(store) == printed
