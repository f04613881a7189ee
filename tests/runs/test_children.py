"""The study's code runs in child processes: what it does to its process changes no bit, and nothing of the caller's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import MECHANISM, call, hpcdp, kept, show, started, wait_until, write_study
from journals import records

GIVEN = "given = [{ d = [0.0], d_prime = [1.0] }]"

# Changes all that a process has once, in each chunk anew, and needs in a chunk what it left in others.
WILD = (
    MECHANISM
    + """
import random
import sys
import warnings

import numpy as np

HERE = os.path.dirname(LOG)
left = []


def wild(database, size, rng):
    if not on_worker():
        return noisy(database, size, rng)
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
    return noisy(database, size, rng)
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


DEAF = f"""{MECHANISM}
import signal
import sys


def deaf(database, size, rng):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    sys.stdout = sys.stderr = None
    if size == 500:
        open(os.path.join(os.path.dirname(LOG), "draws"), "w").close()
        time.sleep(0.2)
    return database.sum() + rng.laplace(size=size)
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
    command = [sys.executable, "-c", STATE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr
    assert set(done.stderr.splitlines()) == {"loud"}


@pytest.mark.slow
def test_a_mechanism_that_is_deaf_keeps_no_run_from_its_end(tmp_path: Path) -> None:
    study, store = write_study(tmp_path, DEAF, pairs=GIVEN, call="own:deaf", test=5_000, chunk=500), tmp_path / "s.zarr"
    with started("run", study, "--store", store, "--workers", 0, folder=tmp_path, by_user=True) as process:
        wait_until(lambda: bool(records(store, "runs")), "trial draws are over")
        (tmp_path / "draws").unlink(missing_ok=True)
        wait_until((tmp_path / "draws").exists, "it draws")
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(100)
        assert process.returncode == 130, said
    assert f"go on with: hpcdp resume {store}" in said


def raising(folder: Path, what: str) -> Path:
    """A study whose first training chunk does something, until there is a file `mended`."""
    mechanism = f"""{MECHANISM}
import signal
import sys


def raising(database, size, rng):
    if size == 301 and on_worker() and not os.path.exists(os.path.join(os.path.dirname(LOG), "mended")):
        {what}
    return noisy(database, size, rng)
"""
    return write_study(folder, mechanism, pairs=GIVEN, call="own:raising", train=301, test=900, chunk=500)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("sys.exit(7)", "SystemExit: 7"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise type('Odd', (BaseException,), {'__reduce__': lambda self: 1})('no pickle')", "Odd: no pickle"),
        ("os._exit(0)", "it ended its worker process each time it ran, at train chunk 0"),
        ("signal.raise_signal(signal.SIGSEGV)", "it ended its worker process each time it ran, at train chunk 0"),
    ],
)
def test_what_a_chunk_does_is_its_failure(what: str, said: str, tmp_path: Path) -> None:
    study, store = raising(tmp_path, what), tmp_path / "s.zarr"
    found = hpcdp("run", study, "--store", store, "--workers", 0, folder=tmp_path, code=1).stderr
    assert said in found
    assert "train chunk 0" in found
    (tmp_path / "mended").touch()
    hpcdp("resume", store, folder=tmp_path)
    call("run", study, "--store", tmp_path / "whole.zarr", "--workers", 0)
    assert show(store) == show(tmp_path / "whole.zarr")


def test_isolated_is_accepted_and_changes_nothing(tmp_path: Path) -> None:
    study = write_study(tmp_path, pairs=GIVEN, isolated=False)
    said = call("run", study, "--store", tmp_path / "s.zarr").stderr
    assert "mechanism.isolated = false is ignored: the study's code always runs in processes of its own" in said
    call("run", write_study(tmp_path, pairs=GIVEN), "--store", tmp_path / "without.zarr")
    assert show(tmp_path / "s.zarr") == show(tmp_path / "without.zarr")
