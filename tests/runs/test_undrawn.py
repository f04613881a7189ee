"""Runs that end without a picture: small ones, those told so, and those whose picture cannot be drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import call, one_message, write_study

SMALL = {
    "call": "laplace",
    "parameters": {"scale": 1.0},
    "pairs": "given = [{ d = [0.0], d_prime = [1.0] }]",
    "train": 500,
    "test": 500,
    "chunk": 500,
}


@pytest.fixture(name="study")
def study_fixture(tmp_path: Path) -> Path:
    return write_study(tmp_path, **SMALL)


def _is_drawn(study: Path, *arguments: object, command: str = "run", name: str = "s") -> bool:
    """Whether there is a picture, which is what the last line says."""
    store = study.parent / "s.zarr"
    what = [store] if command == "resume" else [study, "--store", store]
    done = call(command, *what, *arguments)
    picture = store.with_name(f"{name}.png")
    last = done.stdout.splitlines()[-1]
    assert last.startswith("plot:  " if picture.exists() else "draw:  hpcdp ")
    assert str(picture) in last or not picture.exists()
    return picture.exists()


@pytest.mark.slow
def test_a_small_run_and_one_with_workers(study: Path, scheduler: str) -> None:
    """The plan decides, of what is left of a store too."""
    assert not _is_drawn(study)
    assert not _is_drawn(study, command="resume")
    assert not _is_drawn(study, "--cluster", scheduler, "--no-plot")
    assert _is_drawn(study, "--cluster", scheduler)


@pytest.mark.parametrize("command", ["run", "resume"])
def test_asked_for(study: Path, command: str) -> None:
    assert not _is_drawn(study)
    assert _is_drawn(study, "--plot", command=command)


def test_an_audit_with_a_file_for_its_picture(study: Path) -> None:
    words = ["audit", study, "--store", study.parent / "s.zarr", "--claim", "laplace(epsilon=9)"]
    done = call(*words, "-o", study.parent / "here.png", "--no-plot", code=2)
    assert "-o: accepted without --no-plot" in one_message(done)
    call(*words, "-o", study.parent / "here.png")
    assert (study.parent / "here.png").exists()


def test_a_picture_that_cannot_be_written(study: Path) -> None:
    """No failure of the run, which has ended well."""
    store = study.parent / "s.zarr"
    (study.parent / "s.png").mkdir()
    done = call("run", study, "--store", store, "--plot")
    assert f"store: {store}" in done.stdout
    assert "plot:" not in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("the picture")]
    assert line.startswith("the picture could not be drawn (IsADirectoryError")
    assert line.endswith(f"; it is drawn by: hpcdp plot {store}")
