"""A random tape on SLURM: interrupted among draws and resumed, it gives the bytes of an undisturbed run here."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from commands import call, contents, hold, release, show, started, wait_until, write_study
from disturbed import STEERED, set_pause
from journals import records
from studies import TAPED
from throwaway import ThrowawaySlurm

PROFILE = Path(__file__).parents[3] / "slurm" / "test.toml"
# As `steered`, but for its notes of the generator's state and of how it is steered: entries of the tape are looked at one by one.
OWN = (
    STEERED
    + """

def shifted(database, size, rng):
    hold()
    time.sleep(float(read("pause") or 0))
    return 0.25 * database.sum() + rng.normal(size=size)
"""
)


@pytest.mark.slow
def test_interrupted_and_resumed(tmp_path: Path, clean_slurm: ThrowawaySlurm) -> None:
    """On jobs until something is drawn, on other jobs from there; the same in one process of this machine."""
    study, store, here = write_study(tmp_path, OWN, **TAPED), tmp_path / "s.zarr", tmp_path / "here.zarr"
    set_pause(tmp_path, 0.1)
    hold(tmp_path, store, 1, "counts")
    with started("run", study, "--store", store, "--cluster", PROFILE, folder=tmp_path) as process:
        wait_until(lambda: len(records(store, "counts")) >= 1, "a record of draws", 180.0)
        process.send_signal(signal.SIGTERM)
        release(tmp_path)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert "Traceback" not in said
    before = contents(store)
    assert records(store, "fits")
    set_pause(tmp_path, 0.0)
    call("resume", store, "--cluster", PROFILE)
    after = contents(store)
    assert {path: after[path] for path in before} == before, "what was committed did not change"
    call("run", study, "--store", here, "--workers", 0)
    assert show(store) == show(here)
