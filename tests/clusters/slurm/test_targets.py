"""A study with a target on SLURM: interrupted in every stage, it decides and finds what an undisturbed run finds here."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from commands import Started, call, hold, records, release, show, started, stored_problem, wait_until, write_study
from disturbed import STEERED, set_pause
from races import RACE, RACED
from throwaway import ThrowawaySlurm

PROFILE = Path(__file__).parents[3] / "slurm" / "test.toml"
STUDY = {"call": "own:steered", "etas": [], **RACE}
KINDS = ("pilots", "tallies", "fits", "sizes", "counts")
STAGES = ("fits", "sizes", "pilots", "tallies", "counts")  # of fits the first are those of the race's first round
PAUSE = 0.1  # seconds a chunk, of trial draws and when it is interrupted: the slower, the smaller the tasks


def wait_for_more(process: Started, store: Path, known: int, *kinds: str) -> None:
    """Wait until there are more records of some kinds than were known, or the run is over."""
    wait_until(lambda: len(records(store, *kinds)) > known or process.poll() is not None, f"more records of {kinds}")


@pytest.mark.slow
@pytest.mark.release  # tests/runs/test_refined.py kills a run in every stage on this machine
def test_interrupted_in_every_stage(tmp_path: Path, clean_slurm: ThrowawaySlurm, scheduler: str) -> None:
    study, store, here = write_study(tmp_path, STEERED, **STUDY), tmp_path / "s.zarr", tmp_path / "here.zarr"
    one = tmp_path / "one.toml"
    one.write_text(PROFILE.read_text().replace("jobs = 2", "jobs = 1"))
    command: tuple[object, ...] = ("run", study, "--store", store)
    interrupted = 0
    for kind in STAGES:
        before = {path: path.read_bytes() for path in records(store, *KINDS)}
        known = len(records(store, kind))
        set_pause(tmp_path, PAUSE)
        hold(tmp_path, store, known + 1, kind)
        with started(*command, "--cluster", one, folder=tmp_path) as process:
            wait_for_more(process, store, len(before), *KINDS)
            set_pause(tmp_path, 0.0)
            wait_for_more(process, store, known, kind)
            set_pause(tmp_path, PAUSE)
            release(tmp_path)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
            interrupted += process.returncode == 130
            assert process.returncode in (0, 130), said
            assert "Traceback" not in said
        assert all(path.read_bytes() == data for path, data in before.items())
        command = ("resume", store)
    assert interrupted >= 4
    set_pause(tmp_path, 0.0)
    call("resume", store, "--cluster", PROFILE)
    call("run", study, "--store", here, "--cluster", scheduler)
    assert show(store) == show(here)
    sizes = [[stored_problem(s).sizes_of(number) for number in range(len(RACED))] for s in (store, here)]
    assert sizes[0] == sizes[1]
    assert max(s.screen for s in sizes[0]) > RACE["train"]
