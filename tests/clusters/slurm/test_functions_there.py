"""Functions that were given as objects go to jobs by value, and what cannot go is refused before any job is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_frames import FRAME, framed
from test_functions import asserting, locked, of_results, study_of
from throwaway import ThrowawaySlurm

import hpcdp
from hpcdp.errors import StudyError

PROFILE = Path(__file__).parents[3] / "slurm" / "test.toml"


@pytest.mark.slow
def test_functions_and_frames_in_jobs(tmp_path: Path, clean_slurm: ThrowawaySlurm) -> None:
    """With the bits of runs in this process."""
    for name, study in (("function", study_of(asserting)), ("frame", framed([FRAME]))):
        hpcdp.run(study, tmp_path / name / "there.zarr", cluster=str(PROFILE))
        hpcdp.run(study, tmp_path / name / "here.zarr")
        assert of_results(tmp_path / name / "there.zarr") == of_results(tmp_path / name / "here.zarr")


def test_what_cannot_be_sent_asks_for_no_job(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"held cannot be sent to another process: .*; accepted: workers=0"):
        hpcdp.run(study_of(locked()), tmp_path / "s.zarr", cluster=str(PROFILE))
    assert not (tmp_path / "s.zarr").exists()
