"""Functions that were given as objects, and training of models, in jobs; what cannot go there asks for no job."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import blocks
from given_objects import FRAME, SMALL, study_of
from throwaway import ThrowawaySlurm

import hpcdp

PROFILE = Path(__file__).parents[3] / "slurm" / "test.toml"


def asserting(database: Any, size: int, rng: np.random.Generator) -> Any:
    """A function of a module that pytest compiles otherwise than Python does."""
    assert size > 0
    return database.sum() + rng.laplace(size=size)


def framed(database: pd.DataFrame, size: int, rng: np.random.Generator) -> pd.DataFrame:
    """How many rows there are, with noise, beside a text of the frame."""
    assert database.dtypes.equals(FRAME.dtypes)
    return pd.DataFrame({"rows": len(database) + rng.integers(0, 3, size), "name": database["name"].iloc[-2]})


@pytest.mark.slow
def test_functions_and_frames_in_jobs(tmp_path: Path, clean_slurm: ThrowawaySlurm) -> None:
    """With the bits of runs in this process."""
    of_frames = hpcdp.Study.from_dict(
        {
            "study": {"name": "s", "seed": 5},
            "mechanism": {"call": framed},
            "pairs": {"relative": {"databases": [FRAME]}},
            "estimate": {**SMALL, "loss": "frequency"},
        }
    )
    for name, study in (("function", study_of(asserting)), ("frame", of_frames)):
        there = hpcdp.run(study, tmp_path / name / "there.zarr", cluster=str(PROFILE))
        here = hpcdp.run(study, tmp_path / name / "here.zarr")
        assert blocks(there.store) == blocks(here.store)
        assert there.to_json() == here.to_json()  # records are cut by how long draws take, results are not
