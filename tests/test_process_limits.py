"""What a process may open, write and hold: too low limits are told before anything is drawn, and of who lowered them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import hpcdp, one_message, write_study

SMALL = {"databases": [[0.0, 1.0]], "train": 1000, "test": 1000}


def limited(files: int) -> list[str]:
    """Begin a command with a limit of open files."""
    return ["/bin/sh", "-c", f'ulimit -n {files} && exec "$@"', "sh"]


@pytest.mark.parametrize("words", [(), ("--workers", "2"), ("--workers", "4")])
def test_few_open_files_are_refused_with_the_number_that_is_enough(words: tuple[str, ...], tmp_path: Path) -> None:
    command = ("run", write_study(tmp_path, **SMALL), *words)
    line = one_message(hpcdp(*command, folder=tmp_path, prefix=limited(10), code=2))
    found = re.search(r"needs (\d+) open files .* given: a limit of 10 \(ulimit -n\)", line)
    assert found, line
    assert bool(words) != (tmp_path / "runs").exists(), "a number of workers that is given is refused before all else"
    enough = int(found[1])
    assert f"needs {enough} open" in hpcdp(*command, folder=tmp_path, prefix=limited(enough - 1), code=2).stderr
    hpcdp(*command, folder=tmp_path, prefix=limited(enough))
