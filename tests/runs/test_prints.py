"""What a mechanism prints never reaches standard output, and what it raises is told with file and line, in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import MECHANISM, call, hpcdp, one_message, write_study
from refusing import refusal

# Prints by Python, by C (whose buffer outlives the call) and by a child process: while it is imported, drawn from, and at exit.
LOUD = (
    MECHANISM
    + """
import atexit, ctypes, subprocess, sys


def loud(words):
    print("python", words)
    ctypes.CDLL(None).puts(f"library {words}".encode())
    subprocess.run([sys.executable, "-c", f"print('child', {words!r})"] if words == "at import" else ["true"])


loud("at import")
atexit.register(loud, "at exit")
quiet = noisy


def noisy(database, size, rng):
    loud("in a draw")
    return quiet(database, size, rng)
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_standard_output_holds_results_only(workers: int, tmp_path: Path) -> None:
    settings = {"rows": [0], "train": 1000, "test": 1000, "databases": [[0.0, 1.0]], "claim": "laplace(epsilon=1)"}
    study = write_study(tmp_path, LOUD, **settings)
    done = hpcdp("audit", study, "--format", "json", "--workers", workers, folder=tmp_path)
    assert json.loads(done.stdout)["name"] == "s"
    for who in ("python", "library", "child"):
        for when in ("at import", "in a draw"):
            assert (f"{who} {when}" in done.stderr) == ((who, when) != ("child", "in a draw"))


def test_exceptions_name_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], scheduler: str) -> None:
    body = "def noisy(database, size, rng):\n    return helper(size)\n\ndef helper(size):\n    raise ValueError('no\\nluck')\n"
    message = refusal(tmp_path, capsys, body)
    assert f"the mechanism raised ValueError: no luck ({tmp_path / 'own.py'}, line 7) (seen in trial draws)" in message
    message = refusal(tmp_path, capsys, "1 / 0\n")
    assert f"ZeroDivisionError: division by zero ({tmp_path / 'own.py'}, line 3)" in message
    late = "import numpy as np\n" + MECHANISM.replace(
        "    time.sleep(pause)", "    np.ones(size) @ np.ones(17 if size == 250 else size)"
    )
    study = write_study(tmp_path, late, rows=[0], train=500, test=750)
    error = call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler, code=1).stderr
    line = late.splitlines().index("    np.ones(size) @ np.ones(17 if size == 250 else size)") + 1
    assert f"({tmp_path / 'own.py'}, line {line})" in error


def test_a_text_of_fifty_megabytes_is_cut(tmp_path: Path, scheduler: str) -> None:
    wordy = MECHANISM.replace(
        "    time.sleep(pause)", "    if size == 250:\n        raise ValueError('tell ' * 10_000_000)"
    )
    study, store = write_study(tmp_path, wordy, rows=[0], train=500, test=750), tmp_path / "s.zarr"
    error = call("run", study, "--store", store, "--cluster", scheduler, code=1).stderr
    assert "(50,000,000 characters)" in error
    assert len(error) < 10_000
    assert len(call("status", store).stdout) < 10_000
    assert sum(path.stat().st_size for kind in ("json", "jsonl") for path in store.rglob(f"*.{kind}")) < 1_000_000
    always = write_study(tmp_path / "always", wordy.replace("if size == 250", "if size"), rows=[0])
    assert len(one_message(call("plan", always, code=2))) < 1000
