"""A mechanism that closes file descriptors that are not its own: the mechanism is named, in one message."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import hpcdp, one_message, write_study

CLOSING = """
import os
import threading


def closing(database, size, rng, first, trials):
    if trials or threading.current_thread() is not threading.main_thread():
        os.closerange(first, 1000)
    return database.sum() + rng.laplace(size=size)
"""


def closing_study(folder: Path, isolated: bool, **parameters: object) -> Path:
    sizes = {"databases": [[0.0, 1.0]], "train": 1000, "test": 1000}
    study = write_study(folder, CLOSING, call="own:closing", parameters=parameters, **sizes)
    study.write_text(study.read_text().replace("[mechanism]", f"[mechanism]\nisolated = {str(isolated).lower()}"))
    return study


@pytest.mark.slow
@pytest.mark.parametrize("first", [3, 0])
@pytest.mark.parametrize("isolated", [True, False])
def test_trial_draws_that_close_all_files(first: int, isolated: bool, tmp_path: Path) -> None:
    study = closing_study(tmp_path, isolated, first=first, trials=True)
    for command in ("run", "plan"):
        done = hpcdp(command, study, folder=tmp_path, prefix=["env"], code=2)
        said = one_message(done)
        assert said.startswith("hpcdp: mechanism.call own:closing: it closed file descriptors of hpcdp (")
        assert "(seen in trial draws)" in said
        assert done.stderr.strip() == said
        assert done.stdout == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_chunk_that_closes_all_files_of_the_command(tmp_path: Path) -> None:
    study = closing_study(tmp_path, False, first=3, trials=False)
    done = hpcdp("run", study, "--workers", 0, folder=tmp_path, prefix=["env"], code=1)
    assert one_message(done).startswith(
        "hpcdp: code of the study closed file descriptors of hpcdp; cannot use the store"
    )


@pytest.mark.slow
def test_a_mechanism_may_close_what_it_opened(tmp_path: Path) -> None:
    own = CLOSING.replace("os.closerange(first, 1000)", "os.close(os.open(os.devnull, os.O_RDONLY))")
    study = closing_study(tmp_path, True, first=0, trials=True)
    (tmp_path / "own.py").write_text(own)
    hpcdp("run", study, folder=tmp_path, prefix=["env"])
