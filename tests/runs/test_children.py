"""The study's code runs in child processes: what it does to its process changes no bit, and nothing of the caller's."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import MECHANISM, call, hpcdp, kept, python, show, write_study

GIVEN = "given = [{ d = [0.0], d_prime = [1.0] }]"

# Changes all that a process has once, in each chunk anew, and needs in a chunk what it left in others.
WILD = (
    MECHANISM
    + """
import random
import signal
import sys
import warnings
from contextlib import suppress

import numpy as np

HERE = os.path.dirname(LOG)
left = []


def wild(database, size, rng):
    sys.setrecursionlimit(1000)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if on_worker():
        change()
    outputs = noisy(database, size, rng)
    with suppress(RecursionError):  # as little as there may be here
        for depth in range(200, 10, -2):
            sys.setrecursionlimit(depth)
    return outputs


def change():
    open(os.path.join(HERE, f"{os.getpid()}.pid"), "w").close()
    print("loud")
    if left:
        assert os.path.exists("mine") and os.environ["MINE"] == "1" and "HOME" not in os.environ, "its own state is lost"
        assert left[-1] not in (random.random(), np.random.random()), "its random numbers come again"
    os.makedirs(os.path.join(HERE, "folder", "mine"), exist_ok=True)
    os.chdir(os.path.join(HERE, "folder"))
    os.environ["MINE"] = "1"
    os.environ.pop("HOME", None)
    left.append(random.random())
    warnings.simplefilter("error")
    np.seterr(all="raise")
    np.set_printoptions(precision=2)
"""
)

STATE = """
import os, random, signal, sys
import numpy as np
import hpcdp


def state():
    mask = os.umask(0o77)
    os.umask(mask)
    return [
        os.getcwd(), mask, dict(os.environ), sys.stdin, sys.stdout, sys.stderr,
        sys.getrecursionlimit(), np.geterr(), np.get_printoptions(), random.getstate(), str(np.random.get_state()),
        *(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)),
    ]


random.seed(7)
np.random.seed(7)
before = state()
complete = hpcdp.run("study.toml", "s.zarr").complete
print(complete, os.path.exists(f"{os.getpid()}.pid"))
after = state()
assert before == after, [(one, other) for one, other in zip(before, after) if one != other]
"""


@pytest.mark.slow
def test_the_same_bits_in_one_process_and_in_two(tmp_path: Path) -> None:
    stores = [tmp_path / f"{workers}.zarr" for workers in (0, 2)]
    study = write_study(tmp_path, WILD, pairs=GIVEN, call="own:wild")
    said = [hpcdp("run", study, "--store", store, "--workers", store.stem, folder=tmp_path) for store in stores]
    assert "loud" in said[0].stderr
    assert said[0].stdout.partition("\n\nstore:")[0] == call("show", stores[0]).stdout.strip()
    assert kept(stores[0]) == kept(stores[1])


@pytest.mark.slow
def test_a_script_has_the_state_that_it_had(tmp_path: Path) -> None:
    """Without a guard too."""
    write_study(tmp_path, WILD, pairs=GIVEN, call="own:wild")
    done = python(tmp_path, "-c", STATE)
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr
    assert set(done.stderr.splitlines()) == {"loud"}


def test_isolated_is_accepted_and_changes_nothing(tmp_path: Path) -> None:
    study = write_study(tmp_path, pairs=GIVEN, isolated=False)
    said = call("run", study, "--store", tmp_path / "s.zarr").stderr
    assert "mechanism.isolated = false is ignored: the study's code always runs in processes of its own" in said
    call("run", write_study(tmp_path, pairs=GIVEN), "--store", tmp_path / "without.zarr")
    assert show(tmp_path / "s.zarr") == show(tmp_path / "without.zarr")
