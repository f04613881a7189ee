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

from hpcdp import run
from hpcdp.clusters._processes import Processes
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
print(hpcdp.run("study.toml", "s.zarr").complete)
after = state()
assert before == after, [(one, other) for one, other in zip(before, after) if one != other]
"""


def sharing(folder: Path, mechanism: str = MECHANISM, isolated: bool = False, **changes: Any) -> Path:
    """A study file whose code is to be called in the process of the command, or apart."""
    path = write_study(folder, mechanism, **{"pairs": GIVEN, **changes})
    path.write_text(path.read_text().replace("[mechanism]\n", f"[mechanism]\nisolated = {str(isolated).lower()}\n"))
    return path


def of_results(store: Path) -> dict[Path, bytes]:
    """All files of a store but those that say when and by whom it was made."""
    return {path.relative_to(store): body for path, (_, body) in contents(store).items()}


def test_the_same_bits_in_all_places(tmp_path: Path) -> None:
    """Whatever the mechanism does to its process, which is that of the command, one beside it, or a worker."""
    stores = [tmp_path / f"{name}.zarr" for name in ("here", "apart", "workers")]
    said = hpcdp("run", sharing(tmp_path, WILD, call="own:wild"), "--store", stores[0], folder=tmp_path)
    assert "loud" in said.stderr
    assert said.stdout.startswith("s: δ(ε)")
    hpcdp("run", sharing(tmp_path, WILD, True, call="own:wild"), "--store", stores[1], folder=tmp_path)
    hpcdp("run", sharing(tmp_path, WILD, call="own:wild"), "--store", stores[2], "--workers", 2, folder=tmp_path)
    assert len([*tmp_path.glob("*.pid")]) >= 3
    assert of_results(stores[0]) == of_results(stores[1]) == of_results(stores[2])
    assert show(stores[0]) == show(stores[1]) == show(stores[2])
    assert said.stdout.partition("\n\nstore:")[0] == call("show", stores[2]).stdout.strip()


def test_no_process_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = sharing(tmp_path, WILD, call="own:wild")
    monkeypatch.setattr(Processes, "start", None)  # which cannot be called
    assert run(study, tmp_path / "s.zarr").complete
    assert [path.stem for path in tmp_path.glob("*.pid")] == [str(os.getpid())]
    monkeypatch.undo()
    assert run(study, tmp_path / "w.zarr", workers=1).complete
    assert len([*tmp_path.glob("*.pid")]) == 2


@pytest.mark.parametrize("way", ["file", "stdin", "-c"])
def test_a_script_has_the_state_that_it_had(way: str, tmp_path: Path) -> None:
    """Without a guard too, on standard input, and as an argument."""
    sharing(tmp_path, WILD, call="own:wild")
    (tmp_path / "script.py").write_text(STATE)
    command = {"file": ["script.py"], "stdin": ["-"], "-c": ["-c", STATE]}[way]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        input=STATE if way == "stdin" else None,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert set(done.stderr.splitlines()) == {"loud"}


@pytest.mark.parametrize("isolated", [True, False])
def test_what_the_driver_needs_outlives_trial_draws(isolated: bool, tmp_path: Path) -> None:
    """A mechanism that is deaf, and mute, and elsewhere: Ctrl-C ends its run in order, and the store goes on."""
    deaf = f"""{MECHANISM}
import signal
import sys
import threading


def deaf(database, size, rng):
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    os.umask(0o777)
    sys.stdout = sys.stderr = None
    if size == 500:
        time.sleep(0.2)
    return database.sum() + rng.laplace(size=size)
"""
    study, store = sharing(tmp_path, deaf, isolated, call="own:deaf", test=50_000), tmp_path / "s.zarr"
    with started("run", study, "--store", store, "--workers", 0, folder=tmp_path, by_user=True) as process:
        wait_until(lambda: len([*store.rglob("records/samples/**/*.json")]) >= 1, "a block", 60)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(100)
        assert process.returncode == 130, said
    assert f"go on with: hpcdp resume {store}" in said


def raising(what: str) -> str:
    """A mechanism that does something in its first training chunk, in a run."""
    return f"""{MECHANISM}
import signal
import sys
import threading


def raising(database, size, rng):
    if size == 301 and threading.current_thread() is not threading.main_thread() and os.path.exists("{{armed}}"):
        {what}
    return noisy(database, size, rng)
"""


RAISED = {
    "sys.exit(7)": "SystemExit: 7",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise type('Odd', (BaseException,), {'__reduce__': lambda self: 1})('no pickle')": "Odd: no pickle",
    "signal.signal(signal.SIGINT, signal.SIG_IGN)": "ValueError: signal only works in main thread",
}


@pytest.mark.parametrize("isolated", [True, False])
@pytest.mark.parametrize("what", RAISED)
def test_what_a_chunk_raises_is_its_failure(what: str, isolated: bool, tmp_path: Path) -> None:
    armed = tmp_path / "armed"
    armed.touch()
    body = raising(what).replace("{armed}", str(armed))
    study = sharing(tmp_path, body, isolated, call="own:raising", train=301, test=900, chunk=500)
    store = tmp_path / "s.zarr"
    said = hpcdp("run", study, "--store", store, "--workers", 0, folder=tmp_path, code=1).stderr
    assert RAISED[what] in said
    assert "train chunk 0" in said
    armed.unlink()
    hpcdp("resume", store, folder=tmp_path)
    assert ": complete, " in call("status", store).stdout


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("os._exit(0)", "ended with exit code 0"),
        ("signal.raise_signal(signal.SIGSEGV)", "was ended by SIGSEGV"),  # os.kill would let this thread go on a little
    ],
)
def test_what_ends_its_process_ends_the_command(what: str, how: str, tmp_path: Path) -> None:
    """With a message and its exit code, and what is committed is kept; apart the chunk is named."""
    armed = tmp_path / "armed"
    armed.touch()
    body = raising(what).replace("{armed}", str(armed))
    study, store = sharing(tmp_path, body, call="own:raising", train=301, test=900, chunk=500), tmp_path / "s.zarr"
    said = hpcdp("run", study, "--store", store, folder=tmp_path, code=1).stderr.splitlines()[-1]
    named = "mechanism.call own:raising, called in this process (mechanism.isolated = false; true names the chunk)"
    assert said == f"hpcdp: {named}: the process {how}"
    apart = sharing(tmp_path, body, True, call="own:raising", train=301, test=900, chunk=500)
    assert "at train chunk 0" in hpcdp("run", apart, "--store", store, folder=tmp_path, code=1).stderr
    armed.unlink()
    hpcdp("run", study, "--store", store, folder=tmp_path)
    hpcdp("run", study, "--store", tmp_path / "whole.zarr", folder=tmp_path)
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
    study = sharing(tmp_path, call="laplace", parameters={"epsilon": 1.0})
    hpcdp("run", study, "--store", tmp_path / "s.zarr", folder=tmp_path)
    study.write_text(study.read_text().replace("isolated = false\n", ""))
    hpcdp("run", study, "--store", tmp_path / "t.zarr", folder=tmp_path)
    assert show(tmp_path / "s.zarr") == show(tmp_path / "t.zarr")
