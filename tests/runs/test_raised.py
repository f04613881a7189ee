"""Whatever other people's code raises, also what is no Exception: a failure with its place, never a run without end."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, MECHANISM, call, hpcdp, one_message, write_study
from programs import program_study, served
from refusing import refusal

from hpcdp.cli.command import main


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


@pytest.mark.slow
def test_a_closed_standard_output_is_told(tmp_path: Path) -> None:
    command = [*COMMAND, "plan", str(write_study(tmp_path))]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "hpcdp: standard output is closed; nothing could be printed"
    assert "Traceback" not in done.stderr
