"""Ctrl-C while a command starts: one word and exit code 130 from its first own line on, and what follows its end is quiet.

And a run that a signal ends as it draws, and a command whose reader has gone: their exit codes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from commands import COMMAND, LONG, MECHANISM, call, write_study

from hpcdp._base.signals import postponed

# Sends SIGINT to itself as a module is looked for the first time.
SIGNALLING = """
import os, signal, sys

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["AT_IMPORT_OF"] and self in sys.meta_path:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Signalling())
"""

MOMENTS = (
    "hpcdp.cli.command",
    "argparse",
    "hpcdp.driver.driver",
)


def start(folder, moment, command=COMMAND, program=SIGNALLING, **settings):
    """`hpcdp run` of a study, interrupted at a moment."""
    (folder / "sitecustomize.py").write_text(program)
    environment = os.environ | {"PYTHONPATH": str(folder), "AT_IMPORT_OF": moment}
    words = [*command, "run", str(write_study(folder))]
    return subprocess.run(
        words, env=environment, cwd=folder, capture_output=True, text=True, timeout=LONG, check=False, **settings
    )


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interruption_while_a_command_starts(moment: str, tmp_path: Path) -> None:
    done = start(tmp_path, moment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nhpcdp: interrupted\n")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_who_ignores_interruptions_goes_on_ignoring_them(tmp_path: Path) -> None:
    """As a shell's script has what it starts in the background do."""
    done = start(tmp_path, "argparse", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "s.zarr").is_dir()


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGTERM, "interrupted"), (signal.SIGUSR1, "the walltime ends")], ids=["TERM", "USR1"]
)
def test_a_signal_while_a_run_draws(tmp_path: Path, number: int, reason: str) -> None:
    """In this process: the run ends in order, with the code of an interruption, and goes on."""
    mechanism = f"""{MECHANISM}


def halted(database, size, rng):
    if on_worker() and not os.path.exists(LOG + ".again"):
        open(LOG + ".again", "w").close()
        os.kill({os.getpid()}, {number:d})
        time.sleep(1)
    return noisy(database, size, rng)
"""
    study, store = write_study(tmp_path, mechanism, call="own:halted"), tmp_path / "s.zarr"
    said = call("run", study, "--store", store, "--workers", 0, code=130).stderr
    assert f"hpcdp: {reason}; what is committed is kept; go on with: hpcdp resume {store}" in said
    call("resume", store, "--workers", 0)


@pytest.mark.parametrize("buffered", [True, False])
def test_a_reader_that_has_gone_is_a_failure(buffered: bool) -> None:
    """As `head` is once it has its lines, whether output goes out at once or at the end."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "mechanisms"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment, timeout=LONG, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_c_calls_python_back_comes_afterwards(number: int) -> None:
    """LLVM, which loads a kernel, loses an exception of its callbacks, or ends the process."""
    came: list[int] = []
    before = signal.signal(number, lambda number, _: came.append(number))
    try:
        with postponed():
            signal.raise_signal(number)
            assert not came
        assert came == [number]
    finally:
        signal.signal(number, before)
