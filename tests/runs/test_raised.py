"""Whatever other people's code raises, also what is no Exception: a failure with its place, never a run without end."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, MECHANISM, call, hpcdp, one_message, python, show, write_study
from programs import program_study, served
from refusing import refusal

from hpcdp.cli.command import main
from hpcdp.errors import StudyError
from hpcdp.study.claims import parse_claim


class Panic(BaseException):
    """Such as pyo3's PanicException."""


# Sound in trial draws, and then as a library in Rust that panics, or as a coroutine that was cancelled.
PANICS = (
    MECHANISM
    + """

class PanicException(BaseException):
    pass


def panics(database, size, rng):
    outputs = noisy(database, size, rng)
    if on_worker():
        import asyncio; raise WHAT
    return outputs
"""
)
RAISED = {  # what is raised, and how it is told
    "PanicException('no \\x1b[31mluck')": "PanicException: no [31mluck",
    "KeyboardInterrupt": "KeyboardInterrupt",
    "GeneratorExit": "GeneratorExit",
    "SystemExit": "SystemExit",
    "asyncio.CancelledError('enough')": "CancelledError: enough",
    "type('Odd', (BaseException,), {'__reduce__': lambda self: 1})('no pickle')": "Odd: no pickle",
}


@pytest.mark.few
@pytest.mark.parametrize("what", RAISED)
def test_a_panic_costs_the_chunk_and_names_its_line(what: str, tmp_path: Path, scheduler: str) -> None:
    mechanism = PANICS.replace("WHAT", what)
    study = write_study(tmp_path, mechanism, call="own:panics", databases=[[0.0, 1.0]], rows=[0], train=500, test=500)
    error = call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler, code=1).stderr
    line = mechanism.splitlines().index(f"        import asyncio; raise {what}") + 1
    assert f"{RAISED[what]} ({tmp_path / 'own.py'}, line {line})" in error
    assert "the mechanism raised " in error
    assert "train chunk 0 of database 0" in error
    assert "\x1b" not in error


# context managers and generators have rules of their own for StopIteration
OTHERS = [
    "asyncio.CancelledError",
    "type('P', (BaseException,), {})",
    "StopIteration",
    "KeyboardInterrupt",
    "SystemExit",
]


@pytest.mark.parametrize("kind", OTHERS)
def test_panics_in_trial_draws_and_imports(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raised, ended = f"{kind}('enough')", "importing 'own:noisy' ended the program (exit code enough)"
    imported = ended if kind == "SystemExit" else "cannot import module 'own' of 'own:noisy'"
    words = refusal(tmp_path, capsys, f"def noisy(database, size, rng):\n    import asyncio; raise {raised}\n")
    assert "hpcdp: mechanism.call own:noisy: the mechanism raised " in words
    assert f": enough ({tmp_path / 'own.py'}, line 4) (seen in trial draws)" in words
    words = refusal(tmp_path / "import", capsys, f"import asyncio; raise {raised}\n")
    assert imported in words
    assert "enough" in words


def test_a_panic_of_pairs_and_of_distributions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = "class P(BaseException): pass\n\ndef noisy(database, size, rng): pass\n\ndef made(*_): raise P('enough')\n"
    relative = "relative = { call = 'own:made', rows = 'all' }"
    assert "own:made raised P: enough (" in refusal(tmp_path / "r", capsys, module, pairs=relative)
    law = "distributional = [{ call = 'own:made', index = [0], values = [0.0, 1.0] }]"
    assert "own:made raised P: enough (" in refusal(tmp_path / "d", capsys, module, pairs=law)


SMALL: dict[str, Any] = {"databases": [[0.0, 1.0]], "rows": [0], "train": 300, "test": 300}


def test_a_panic_in_a_process_of_its_own(tmp_path: Path) -> None:
    study = write_study(tmp_path, "class P(BaseException): pass\n\ndef noisy(database, size, rng): raise P('enough')\n")
    study.write_text(study.read_text().replace("[mechanism]", "[mechanism]\ntimeout = 100"))
    words = one_message(call("plan", study, code=2))
    assert f"the mechanism raised P: enough ({tmp_path / 'own.py'}, line 3)" in words


# Goes on as two in each call, or in each of its first six, and says which process it was in.
FORKS = """
import os

calls = 0


def noisy(database, size, rng):
    global calls
    calls += 1
    if IS_FORKING and calls <= 6:
        os.fork()
    with open(os.path.join(os.path.dirname(__file__), "pids"), "a") as file:
        file.write(f"{os.getpid()}\\n")
    return rng.normal(size=size)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no system with forks")
@pytest.mark.slow
@pytest.mark.parametrize(("how", "timeout"), [("size", ""), ("size", "\ntimeout = 100"), ("one", "")])
def test_a_mechanism_that_goes_on_as_two_answers_once(how: str, timeout: str, tmp_path: Path) -> None:
    """Copies end at once, else each call has twice as many as the one before."""
    shown = []
    for is_forking in (False, True):
        mechanism = FORKS.replace("IS_FORKING", str(is_forking))
        if how == "one":
            mechanism = mechanism.replace("database, size, rng", "database, rng").replace("size=size", "")
        study = write_study(tmp_path / str(is_forking), mechanism, isolated=True, **{**SMALL, "train": 40, "test": 40})
        study.write_text(study.read_text().replace("[mechanism]", f"[mechanism]{timeout}"))
        store = tmp_path / f"{is_forking}.zarr"
        hpcdp("run", study, "--store", store, "--workers", 0, folder=tmp_path)
        shown.append(show(store))
    assert shown[0] == shown[1]
    assert len(set((tmp_path / "True" / "pids").read_text().split())) <= 20


def test_a_panic_of_a_served_program(tmp_path: Path) -> None:
    body = "raise type('P', (BaseException,), {})('enough')"
    words = one_message(call("plan", program_study(served(tmp_path, body).parent), code=2))
    assert f"P: enough ({tmp_path / 'program.py'}, line 7)" in words


def test_what_escapes_is_one_message(tmp_path, monkeypatch, capsys):
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


INTERRUPTING = """
import os, signal, time


def noisy(database, size, rng):
    os.kill(int(os.environ["DRIVER"]), signal.SIGINT)
    time.sleep(100)
"""


def test_an_interruption_before_there_is_a_store_names_none(tmp_path: Path) -> None:
    study = write_study(tmp_path, INTERRUPTING)
    as_itself = ["/bin/sh", "-c", 'DRIVER=$$ exec "$@"', "sh"]
    error = hpcdp("run", study, folder=tmp_path, code=130, prefix=as_itself).stderr
    assert error.strip() == "hpcdp: interrupted; nothing was stored"


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


@pytest.mark.slow
def test_signals_are_handled_as_before_once_a_command_was_interrupted(tmp_path: Path) -> None:
    """Of a command in somebody's own process, such as a notebook's."""
    script = """
import os, signal, sys
os.environ["DRIVER"] = str(os.getpid())
from hpcdp.cli.command import main
signal.signal(signal.SIGINT, signal.default_int_handler)
numbers = signal.SIGINT, signal.SIGTERM
before = [signal.getsignal(number) for number in numbers]
print(main(["run", sys.argv[1]]), [signal.getsignal(number) for number in numbers] == before)
"""
    done = python(tmp_path, "-c", script, write_study(tmp_path, INTERRUPTING))
    assert done.stdout == "130 True\n"
    assert "interrupted" in done.stderr


@pytest.mark.slow
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


@pytest.mark.slow
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
