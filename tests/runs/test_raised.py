"""Whatever other people's code raises, also what is no Exception: a failure with its place, never a run without end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import COMMAND, LONG, MECHANISM, call, hpcdp, one_message, write_study
from distributed import Client
from programs import program_study, served
from refusing import refusal

from hpcdp._base.signals import as_interruptions
from hpcdp.cli.command import main
from hpcdp.clusters.place import DaskPlace
from hpcdp.engine import window as engine
from hpcdp.engine.stopping import Stop
from hpcdp.engine.window import DaskWindow, PlaceError
from hpcdp.errors import HpcdpError, MechanismError, StudyError
from hpcdp.mechanisms._apart import ApartMechanism
from hpcdp.mechanisms._pcg64 import PCG64
from hpcdp.study.claims import parse_claim

# Sound in trial draws, and then as a library in Rust that panics, or as a coroutine that was cancelled.
PANICS = (
    MECHANISM
    + """

class PanicException(BaseException):
    pass


def panics(database, size, rng):
    outputs = noisy(database, size, rng)
    if on_worker():
        raise PanicException("no \\x1b[31mluck")
    return outputs
"""
)


class Panic(BaseException):
    """Such as pyo3's PanicException."""


def test_an_interruption_that_comes_into_a_kernel_is_one() -> None:
    """numba's dispatcher then says that there was a result and an exception."""
    with pytest.raises(KeyboardInterrupt), as_interruptions():
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()
    with pytest.raises(SystemError, match="of its own"), as_interruptions():
        raise SystemError("of its own")


def test_a_panic_costs_the_chunk_and_names_its_line(tmp_path: Path, scheduler: str) -> None:
    study = write_study(tmp_path, PANICS, call="own:panics", databases=[[0.0, 1.0]], rows=[0], train=500, test=500)
    error = call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler, code=1).stderr
    line = PANICS.splitlines().index('        raise PanicException("no \\x1b[31mluck")') + 1
    assert f"the mechanism raised PanicException: no [31mluck ({tmp_path / 'own.py'}, line {line})" in error
    assert "train chunk 0 of database 0" in error
    assert "\x1b" not in error


@pytest.mark.parametrize("name", ["KeyboardInterrupt", "GeneratorExit", "SystemExit"])
def test_an_interruption_of_its_own_costs_the_chunk(name: str, tmp_path: Path, scheduler: str) -> None:
    own = PANICS.replace('PanicException("no \\x1b[31mluck")', name)
    study = write_study(tmp_path, own, call="own:panics", databases=[[0.0, 1.0]], rows=[0], train=500, test=500)
    error = call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler, code=1).stderr
    assert f"the mechanism raised {name} ({tmp_path / 'own.py'}, line " in error
    assert "train chunk 0 of database 0" in error


@pytest.mark.parametrize(
    "body",
    [
        "import asyncio; raise asyncio.CancelledError('enough')",
        "raise type('P', (BaseException,), {})('enough')",
        "raise StopIteration('enough')",  # as `next` does, for which context managers and generators have rules of their own
    ],
)
def test_panics_in_trial_draws_and_imports(body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = refusal(tmp_path, capsys, f"def noisy(database, size, rng):\n    {body}\n")
    assert "the mechanism raised " in words
    assert f": enough ({tmp_path / 'own.py'}, line 4) (seen in trial draws)" in words
    words = refusal(tmp_path / "import", capsys, body + "\n")
    assert "cannot import module 'own' of 'own:noisy'" in words
    assert ": enough (" in words


def test_a_panic_of_pairs_and_of_distributions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = "class P(BaseException): pass\n\ndef noisy(database, size, rng): pass\n\ndef made(*_): raise P('enough')\n"
    relative = "relative = { call = 'own:made', rows = 'all' }"
    assert "own:made raised P: enough (" in refusal(tmp_path / "r", capsys, module, pairs=relative)
    law = "distributional = [{ call = 'own:made', index = [0], values = [0.0, 1.0] }]"
    assert "own:made raised P: enough (" in refusal(tmp_path / "d", capsys, module, pairs=law)


def test_a_panic_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "own_apart.py").write_text(
        "class P(BaseException): pass\n\ndef f(database, size, rng): raise P('enough')\n"
    )
    mechanism = ApartMechanism("own_apart:f", {}, tmp_path, True, 100.0)
    try:
        with pytest.raises(MechanismError, match=r"the mechanism raised P: enough \(.*own_apart.py, line 3\)"):
            mechanism.draw(np.zeros(1), 2, np.random.Generator(PCG64(0)))
    finally:
        mechanism.end()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no system with forks")
def test_a_mechanism_that_goes_on_as_two_answers_once(tmp_path: Path) -> None:
    (tmp_path / "own_copied.py").write_text(
        "import os\n\ndef f(database, size, rng):\n    os.fork()\n    return rng.normal(size=size)\n"
    )
    mechanism = ApartMechanism("own_copied:f", {}, tmp_path, True, 100.0)
    try:
        for number in range(5):
            drawn = mechanism.draw(np.zeros(1), 3, np.random.Generator(PCG64(number)))
            assert drawn.tolist() == np.random.default_rng(number).normal(size=3).tolist()
    finally:
        mechanism.end()


COPIES = """
import os
import types

import numpy as np

from hpcdp.mechanisms._callable import CallableMechanism

calls, most = 0, 6


def mechanism(database, rng):
    global calls
    calls += 1
    os.write(1, b"%d\\n" % os.getpid())
    if calls <= most:
        os.fork()
    return rng.normal()


own = CallableMechanism(mechanism, {}, False)
rng = np.random.default_rng(1)
rngs = lambda number: types.SimpleNamespace(normal=rng.normal, close=lambda: None)
alone = lambda: own.draw_alone(lambda: np.zeros(1), 8, rngs, lambda found: found)
len(DRAW) == 8 or os._exit(3)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no system with forks")
@pytest.mark.parametrize("draw", ["own.draw(np.zeros(1), 8, rng)", "alone()"])
def test_copies_of_a_mechanism_that_is_called_for_each_output_end_at_once(draw: str) -> None:
    """Else each call has twice as many as the one before."""
    done = subprocess.run(
        [sys.executable, "-c", COPIES.replace("DRAW", draw)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 8
    assert len(set(done.stdout.split())) == 1


class Heard:
    """A watch that keeps what it is told."""

    def __init__(self) -> None:
        self.stop, self.told = Stop(), list[str]()

    def note(self, text: str) -> None:
        self.told.append(text)

    def is_lost(self) -> bool:
        return False


@pytest.fixture(name="window")
def window_fixture(scheduler: str) -> Iterator[DaskWindow]:
    with Client(scheduler) as client, DaskWindow(DaskPlace(client, LONG), Heard()) as window:  # type: ignore[arg-type]
        yield window


def within(window: DaskWindow) -> list[tuple[Any, Any]]:
    """What `next` gives; Stopped where it gives nothing in a minute."""
    window.watch.stop.request("nothing came", 60.0)
    return window.next()


def raise_named(name: str) -> None:
    import asyncio

    raise {"cancelled": asyncio.CancelledError, "exit": GeneratorExit}[name]("enough")


@pytest.mark.parametrize("name", ["cancelled", "exit"])
def test_what_a_task_raises_is_delivered(name: str, window: DaskWindow) -> None:
    window.submit(1, "sample-7", raise_named, name)
    with pytest.raises(HpcdpError, match=r"the task sample-7 raised .*: enough"):
        within(window)


class Unreadable:
    """What pickle can write and not read."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_a_result_that_cannot_be_read_is_not_asked_for_without_end(window: DaskWindow) -> None:
    window.submit(1, "sample-7", Unreadable)
    with pytest.raises(PlaceError, match="the result of the task sample-7 cannot be read: ValueError: invalid literal"):
        within(window)


class Deaf(DaskWindow):
    """A window whose first fetches of each result are lost on their way, as the loop's callbacks are when it breaks."""

    lost = 1

    def _begin_fetch(self, future: Any) -> None:
        self.lost -= 1
        if self.lost < 0:
            super()._begin_fetch(future)


@pytest.mark.parametrize("lost", [1, 1000])
def test_a_result_that_does_not_come_is_fetched_again(
    lost: int, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_LATE", 1.0)
    monkeypatch.setattr(engine, "_QUIET", 0.0)
    watch = Heard()
    with Client(scheduler) as client, Deaf(DaskPlace(client, LONG), watch) as window:  # type: ignore[arg-type]
        window.lost = lost
        window.submit(1, "sample-7", abs, -2)
        if lost == 1:
            assert within(window) == [(1, 2)]
            assert not window.underway
        else:
            with pytest.raises(PlaceError, match="the result of the task sample-7 is there and does not come"):
                within(window)
    assert watch.told[-1].endswith(": 0 tasks are running"), watch.told


def test_a_panic_of_a_served_program(tmp_path: Path) -> None:
    body = "raise type('P', (BaseException,), {})('enough')"
    words = one_message(call("plan", program_study(served(tmp_path, body).parent), code=2))
    assert f"P: enough ({tmp_path / 'program.py'}, line 7)" in words


def test_what_escapes_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def panic(*_: Any) -> None:
        raise Panic("no \x1b[31mluck")

    monkeypatch.setattr("hpcdp.cli.reading.show", panic)
    with pytest.raises(Panic):
        main(["show", str(tmp_path), "--debug"])
    capsys.readouterr()
    assert main(["show", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("hpcdp: unexpected Panic: no [31mluck")
    assert error.count("\n") == 1


def test_an_interruption_before_there_is_a_store_names_none(tmp_path: Path) -> None:
    body = "import os, signal\n\ndef noisy(database, size, rng):\n    os.kill(os.getpid(), signal.SIGINT)\n"
    study = write_study(tmp_path, body)
    error = hpcdp("run", study, folder=tmp_path, code=130, prefix=["env"]).stderr
    assert error.strip() == "hpcdp: interrupted; nothing was stored"


@pytest.mark.parametrize("name", ["KeyboardInterrupt", "GeneratorExit", "SystemExit"])
def test_an_interruption_of_its_own_in_trial_draws_is_its_failure(name: str, tmp_path: Path) -> None:
    study = write_study(tmp_path, f"def noisy(database, size, rng):\n    raise {name}('enough')\n")
    words = f"hpcdp: mechanism.call own:noisy: the mechanism raised {name}: enough ({tmp_path / 'own.py'}, line 2) (seen in trial"
    assert one_message(call("run", study, code=2)).startswith(words)
    study = write_study(tmp_path, f"raise {name}('enough')\n")
    other = "ended the program (exit code enough)" if name == "SystemExit" else f"{name}: enough"
    assert other in one_message(call("plan", study, code=2))


def test_an_interruption_of_its_own_beside_a_handler_of_another_library(tmp_path: Path) -> None:
    """Other libraries take Ctrl-C for themselves, and do not tell whether a signal came."""
    study = write_study(tmp_path, "def noisy(database, size, rng):\n    raise KeyboardInterrupt('enough')\n")

    def theirs(*_: object) -> None:
        raise AssertionError("no signal came")

    before = signal.signal(signal.SIGINT, theirs)
    try:
        assert "the mechanism raised KeyboardInterrupt: enough" in one_message(call("run", study, code=2))
        assert signal.getsignal(signal.SIGINT) is theirs
    finally:
        signal.signal(signal.SIGINT, before)


def test_signals_are_handled_as_before_once_a_command_was_interrupted(tmp_path: Path) -> None:
    """Of a command in somebody's own process, such as a notebook's."""
    body = "import signal\n\ndef noisy(database, size, rng):\n    signal.raise_signal(signal.SIGINT)\n"
    script = """
import signal, sys
from hpcdp.cli.command import main
signal.signal(signal.SIGINT, signal.default_int_handler)
numbers = signal.SIGINT, signal.SIGTERM
before = [signal.getsignal(number) for number in numbers]
print(main(["run", sys.argv[1]]), [signal.getsignal(number) for number in numbers] == before)
"""
    study = write_study(tmp_path, body)
    command = [sys.executable, "-c", script, str(study)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=True)
    assert done.stdout == "130 True\n"
    assert "interrupted" in done.stderr


@pytest.mark.parametrize("which", ["stdout", "stderr"])
def test_streams_that_a_mechanism_closes(which: str, tmp_path: Path) -> None:
    body = (
        f"import sys\n\ndef noisy(database, size, rng):\n    sys.{which}.close()\n    return rng.laplace(size=size)\n"
    )
    study = write_study(tmp_path, body, rows=[0], train=100, test=100)
    done = hpcdp("run", study, "--store", "s.zarr", "--workers", "0", folder=tmp_path)
    assert "\nstore: s.zarr\n" in done.stdout
    assert "plan of s" in done.stderr
    study = write_study(tmp_path, body.replace("return rng", "raise ValueError\n    return rng"), rows=[0])
    assert "the mechanism raised ValueError" in one_message(hpcdp("run", study, folder=tmp_path, code=2))


LIMITS = """
import resource


def noisy(database, size, rng):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (9, hard))
    return database.sum() + rng.laplace(size=size)
"""


def test_limits_that_a_mechanism_lowers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write_study(tmp_path, LIMITS, rows=[0], train=100, test=100, epsilons=[0.0], etas=[])
    for words in (["--workers", "0"], ["--workers", "1"]):
        hpcdp("run", study, "--store", f"{words[1]}.zarr", *words, folder=tmp_path)
    left = iter([1024, 9, 9])
    monkeypatch.setattr("hpcdp.study.trial_draws.open_files", lambda: next(left))
    refused = one_message(call("plan", write_study(tmp_path, LIMITS), code=2))
    assert "mechanism.call own:noisy: it lowered the limit of open files from 1024 to 9 for good; accepted: " in refused


@pytest.mark.skipif(os.geteuid() == 0, reason="root raises a hard limit again")
def test_a_hard_limit_that_a_mechanism_lowers(tmp_path: Path) -> None:
    study = write_study(tmp_path, LIMITS.replace("(9, hard)", "(9, 9)"), rows=[0])
    found = one_message(hpcdp("run", study, folder=tmp_path, code=2))
    assert "mechanism.call own:noisy: it lowered the limit of open files from " in found


def test_a_closed_standard_output_is_told(tmp_path: Path) -> None:
    command = [*COMMAND, "plan", str(write_study(tmp_path))]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "hpcdp: standard output is closed; nothing could be printed"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["x" * 100_000, f"laplace(epsilon={'x' * 100_000})", f"store({'x' * 100_000})"])
def test_a_long_claim_is_quoted_in_part(text: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="characters\\)") as raised:
        parse_claim(text, tmp_path)
    assert len(str(raised.value)) < 3000
