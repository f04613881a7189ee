"""Studies that `run` refuses before anything runs, and a mechanism that is sound."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from commands import write_study

from hpcdp.cli.command import main

HEAD = "import sys\nimport numpy as np\n"
GOOD = "def noisy(database, size, rng):\n    return rng.laplace(size=size)\n"


def refusal(folder: Path, capsys: pytest.CaptureFixture[str], module: str, **settings: Any) -> str:
    """The message with which `run` refuses a study, after checks that nothing else happened."""
    study = write_study(folder, HEAD + dedent(module), **settings)
    assert main(["run", str(study), "--store", str(folder / "s.zarr"), "--workers", "1"]) == 2
    assert not (folder / "s.zarr").exists()
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("hpcdp: ")
    assert error.count("\n") == 1
    return error
