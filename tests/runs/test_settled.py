"""A run's store stays where it was given, wherever other people's code takes the process, and messages name it as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import hpcdp, write_study

WANDERS = """
import os
import pathlib
import threading
import time

ELSEWHERE = pathlib.Path(__file__).parent / "elsewhere"


def wander():
    while True:
        os.chdir(ELSEWHERE)
        time.sleep(0.0005)


threading.Thread(target=wander, daemon=True).start()


def noisy(database, size, rng):
    os.chdir(ELSEWHERE)
    return database.sum() + rng.laplace(size=size)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("command", "isolated"), [("run", True), ("run", False), ("resume", False), ("audit", True)])
def test_code_that_goes_elsewhere_moves_no_store(command: str, isolated: bool, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    write_study(tmp_path, WANDERS, isolated=isolated, rows=[0], train=500, test=500, keep="none")
    if command == "resume":
        hpcdp("run", "study.toml", "--store", "s.zarr", "--workers", "0", folder=tmp_path)
    given = ["s.zarr"] if command == "resume" else ["study.toml", "--store", "s.zarr"]
    claim = ["--claim", "gaussian(mu=9)"] if command == "audit" else []
    done = hpcdp(command, *given, "--workers", "0", "--plot", *claim, folder=tmp_path)
    assert "\nstore: s.zarr\n" in done.stdout
    assert str(tmp_path) not in done.stdout + done.stderr
    picture = "s-audit.png" if command == "audit" else "s.png"
    assert f"plot:  {picture}\n" in done.stdout
    assert (tmp_path / picture).is_file()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert "complete" in hpcdp("status", "s.zarr", folder=tmp_path).stdout


FAILS = """
import os
import threading

STORE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "-s.zarr")


def noisy(database, size, rng):
    os.chdir("/")
    if threading.current_thread() is not threading.main_thread():
        raise ValueError("no luck")
    return database.sum() + rng.laplace(size=size)
"""


@pytest.mark.slow
def test_a_failure_names_the_store_as_it_was_given(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    write_study(folder, FAILS, isolated=False, rows=[0], train=500, test=500, chunk=500)
    done = hpcdp("run", "study.toml", "--store=-s.zarr", "--workers", "0", folder=folder, code=1)
    assert str(folder) not in done.stderr.replace(f"({folder}/own.py", "")
    assert "hpcdp resume ./-s.zarr" in done.stderr


@pytest.mark.slow
def test_a_study_that_is_refused_is_not_planned(tmp_path: Path) -> None:
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    own = {"call": "laplace", "parameters": {"epsilon": 1.0}, "pairs": pairs, "train": 100, "test": 100}
    study = write_study(tmp_path, **own)
    hpcdp("run", study, "--store", "s.zarr", "--workers", "0", folder=tmp_path)
    other = write_study(tmp_path, name="t.toml", **{**own, "parameters": {"epsilon": 2.0}})
    for command in (
        ["run"],
        ["audit", "--claim", "gaussian(mu=1)"],
        ["audit", "--claim", "gaussian(mu=1)", "--sequential"],
    ):
        done = hpcdp(*command[:1], other, "--store", "s.zarr", *command[1:], folder=tmp_path, code=2)
        (line,) = done.stderr.splitlines()
        assert line.startswith("hpcdp: s.zarr holds another study")
        assert "; changed: mechanism.parameters.epsilon (1.0 in the store, 2.0 given); accepted: " in line
