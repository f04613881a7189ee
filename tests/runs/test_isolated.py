"""mechanism.isolated = false: small runs call other people's code in this process, and both keep what they had."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import MECHANISM, call, contents, hpcdp, show, started, wait_until, write_study
from studies import make_study

from hpcdp.errors import StudyError
from hpcdp.study.file import Study

GIVEN = "given = [{ d = [0.0], d_prime = [1.0] }]"

# Changes all that a process has once, in each chunk anew and never in trial draws, and needs in a chunk what it left in others.
WILD = (
    MECHANISM
    + """
import random
import sys
import threading
import warnings

import numpy as np

HERE = os.path.dirname(LOG)
left = []


def wild(database, size, rng):
    if threading.current_thread() is threading.main_thread():
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
    sys.setrecursionlimit(700)
    np.seterr(all="raise")
    np.set_printoptions(precision=2)
    outputs = noisy(database, size, rng)
    os.umask(0o777)
    sys.stdin = sys.stdout = sys.stderr = None
    return outputs
"""
)

STATE = """
import os, random, signal, sys, warnings
import numpy as np
import hpcdp


def state():
    mask = os.umask(0o77)
    os.umask(mask)
    own = {name: value for name, value in os.environ.items() if name != "KMP_DUPLICATE_LIB_OK"}  # of threadpoolctl
    return [
        os.getcwd(), mask, own, sys.stdin, sys.stdout, sys.stderr, list(warnings.filters),
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
    if not on_worker():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    os.umask(0o777)
    sys.stdout = sys.stderr = None
    if size == 500:
        time.sleep(0.2)
    return database.sum() + rng.laplace(size=size)
"""


def of_results(store: Path) -> dict[Path, bytes]:
    """All files of a store but those that say when and by whom it was made."""
    return {path.relative_to(store): body for path, (_, body) in contents(store).items()}


def sharing(folder: Path, mechanism: str = MECHANISM, isolated: bool = False, **changes: Any) -> Path:
    """A study file whose code is to be called in the process of the command, or apart."""
    return write_study(folder, mechanism, isolated=isolated, **{"pairs": GIVEN, **changes})


@pytest.mark.slow
def test_the_same_bits_in_all_places(tmp_path: Path) -> None:
    """Whatever the mechanism does to its process, which is that of the command, one beside it, or a worker."""
    here, apart, workers = stores = [tmp_path / f"{name}.zarr" for name in ("here", "apart", "workers")]
    study = sharing(tmp_path, WILD, call="own:wild")
    said = hpcdp("run", study, "--store", here, folder=tmp_path)
    assert "loud" in said.stderr
    assert said.stdout.partition("\n\nstore:")[0] == call("show", here).stdout.strip()
    assert len([*tmp_path.glob("*.pid")]) == 1, "all is drawn in one process"
    hpcdp("run", study, "--store", workers, "--workers", 2, folder=tmp_path)
    hpcdp("run", sharing(tmp_path, WILD, True, call="own:wild"), "--store", apart, folder=tmp_path)
    assert len([*tmp_path.glob("*.pid")]) >= 3
    assert of_results(here) == of_results(apart) == of_results(workers)
    assert len({show(store) for store in stores}) == 1


@pytest.mark.slow
def test_a_script_has_the_state_that_it_had(tmp_path: Path) -> None:
    """Without a guard too. All is drawn in its own process."""
    sharing(tmp_path, WILD, call="own:wild")
    command = [sys.executable, "-c", STATE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
    assert set(done.stderr.splitlines()) == {"loud"}


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [True, False])
def test_what_the_driver_needs_outlives_trial_draws(isolated: bool, tmp_path: Path) -> None:
    """A mechanism that is deaf, and mute, and elsewhere: Ctrl-C ends its run in order, and the store goes on."""
    study, store = sharing(tmp_path, DEAF, isolated, call="own:deaf", test=50_000), tmp_path / "s.zarr"
    with started("run", study, "--store", store, "--workers", 0, folder=tmp_path, by_user=True) as process:
        wait_until(lambda: len([*store.rglob("records/samples/**/*.json")]) >= 1, "a block", 60)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(100)
        assert process.returncode == 130, said
    assert f"go on with: hpcdp resume {store}" in said


def raising(folder: Path, what: str, isolated: bool) -> Path:
    """A study whose first training chunk does something, until there is a file `mended`."""
    mechanism = f"""{MECHANISM}
import signal
import sys


def raising(database, size, rng):
    if size == 301 and on_worker() and not os.path.exists(os.path.join(os.path.dirname(LOG), "mended")):
        {what}
    return noisy(database, size, rng)
"""
    return sharing(folder, mechanism, isolated, call="own:raising", train=301, test=900, chunk=500)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "said", "isolated"),
    [
        ("sys.exit(7)", "SystemExit: 7", False),
        ("sys.exit(7)", "SystemExit: 7", True),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", False),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", True),
        ("raise type('Odd', (BaseException,), {'__reduce__': lambda self: 1})('no pickle')", "Odd: no pickle", True),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN)", "ValueError: signal only works in main thread", False),
    ],
)
def test_what_a_chunk_raises_is_its_failure(what: str, said: str, isolated: bool, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    study = raising(tmp_path, what, isolated)
    found = hpcdp("run", study, "--store", store, "--workers", 0, folder=tmp_path, code=1).stderr
    assert said in found
    assert "train chunk 0" in found
    (tmp_path / "mended").touch()
    hpcdp("resume", store, folder=tmp_path)
    assert ": complete, " in call("status", store).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("os._exit(0)", "ended with exit code 0"),
        ("signal.raise_signal(signal.SIGSEGV)", "was ended by SIGSEGV"),  # os.kill would let this thread go on a little
    ],
)
def test_what_ends_its_process_ends_the_command(what: str, how: str, tmp_path: Path) -> None:
    """With a message and its exit code, and what is committed is kept; apart the chunk is named."""
    study, store = raising(tmp_path, what, False), tmp_path / "s.zarr"
    said = hpcdp("run", study, "--store", store, folder=tmp_path, code=1).stderr.splitlines()[-1]
    named = "mechanism.call own:raising, called in this process (mechanism.isolated = false; true names the chunk)"
    assert said == f"hpcdp: {named}: the process {how}"
    apart = raising(tmp_path, what, True)
    assert "at train chunk 0" in hpcdp("run", apart, "--store", store, folder=tmp_path, code=1).stderr
    (tmp_path / "mended").touch()
    hpcdp("run", raising(tmp_path, what, False), "--store", store, folder=tmp_path)
    call("run", study, "--store", tmp_path / "whole.zarr", "--workers", 0)
    assert show(store) == show(tmp_path / "whole.zarr"), "it is no part of a law, and may change"


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            {"call": {"command": ["sh"]}, "isolated": False},
            "mechanism.isolated: a program always has a process of its own; leave this key out; given: false",
        ),
        (
            {"call": "stored", "isolated": False},
            "mechanism.isolated: stored draws nothing; leave this key out; given: false",
        ),
        (
            {"call": "own:noisy", "timeout": "1 min", "isolated": False},
            "mechanism.isolated: with mechanism.timeout it has a process of its own, which can be ended; given: false and "
            "timeout = 60; accepted: one of them",
        ),
        ({"call": "own:noisy", "isolated": 0}, "mechanism.isolated: true or false; given: 0"),
    ],
)
def test_where_it_means_nothing_it_is_refused(section: dict[str, Any], words: str) -> None:
    good = make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, epsilons=[0.0]).to_dict()
    with pytest.raises(StudyError) as caught:
        Study.from_dict({**good, "mechanism": section})
    assert words in str(caught.value)
    assert "isolated" not in good["mechanism"], "stores from before the key hold the same study"


def test_a_built_in_is_called_there_anyway(tmp_path: Path) -> None:
    for name in ("with", "without"):
        key = {"isolated": False} if name == "with" else {}
        study = write_study(tmp_path, pairs=GIVEN, call="laplace", parameters={"epsilon": 1.0}, **key)
        call("run", study, "--store", tmp_path / f"{name}.zarr")
    assert show(tmp_path / "with.zarr") == show(tmp_path / "without.zarr")
