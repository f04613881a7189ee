"""hpcdp.run from scripts that are not guarded and from standard input: workers do not run them again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import write_study

SCRIPT = "import os, hpcdp\nprint('begun')\nprint(hpcdp.run('study.toml', f'{os.getpid()}.zarr', WORKERS).name)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "workers"), [("file", "workers=1"), ("stdin", "workers=1"), ("stdin", ""), ("-c", "workers=1")]
)
def test_a_script_without_a_guard(way: str, workers: str, tmp_path: Path) -> None:
    write_study(tmp_path, rows=[0], train=500, test=500, databases=[[0.0, 1.0]])
    script = SCRIPT.replace("WORKERS", workers)
    (tmp_path / "script.py").write_text(script)
    command = {"file": ["script.py"], "stdin": ["-"], "-c": ["-c", script]}[way]
    given = script if way == "stdin" else None
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, input=given, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "begun\ns\n", "")


MAIN = """
import hpcdp


def noisy(database, size, rng):
    return database.sum() + rng.laplace(size=size)


GUARD
    study = hpcdp.Study.from_toml("study.toml")
    print(hpcdp.run(study, "s.zarr", workers=1).complete)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "guard", "code", "words"),
    [
        ("file", 'if __name__ == "__main__":', 0, ""),
        ("file", "if True:", 1, "what it runs must stand below"),
        ("stdin", 'if __name__ == "__main__":', 1, "which is in no file"),
    ],
)
def test_a_mechanism_of_the_script_itself(way: str, guard: str, code: int, words: str, tmp_path: Path) -> None:
    write_study(tmp_path, call="__main__:noisy", rows=[0], train=500, test=500, databases=[[0.0, 1.0]])
    source = MAIN.replace("GUARD", guard)
    (tmp_path / "script.py").write_text(source)
    command, given = (["script.py"], None) if way == "file" else (["-"], source)
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, input=given, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (code, "" if code else "True\n"), done.stderr
    assert words in done.stderr.splitlines()[-1] if code else done.stderr == ""
    assert not (tmp_path / "s.zarr" / "records").exists() or not code
