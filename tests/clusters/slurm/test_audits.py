"""Audits on SLURM: the same JSON as here, of models that are trained there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commands import call
from journals import records
from throwaway import ThrowawaySlurm

ROOT = Path(__file__).parents[3]
PROFILE = ROOT / "slurm" / "test.toml"


@pytest.mark.slow
def test_models_are_trained_on_slurm(tmp_path: Path, clean_slurm: ThrowawaySlurm, scheduler: str) -> None:
    """A small audit of trained models: the training runs in jobs, and gives what it gives here."""
    folder = tmp_path / "digits"
    shutil.copytree(ROOT / "workflows" / "dpsgd_digits", folder, ignore=shutil.ignore_patterns("runs", "__pycache__"))
    text = (folder / "correct.toml").read_text()
    small = "\n".join(
        {"train": "train = 30", "test": "test = 30", "chunk": "chunk = 10"}.get(line.split(" ")[0], line)
        for line in text.splitlines()
    )
    study = folder / "small.toml"
    study.write_text(small)
    found = []
    for name, place in (("there", PROFILE), ("here", scheduler)):
        store = tmp_path / f"{name}.zarr"
        found.append(call("audit", study, "--store", store, "--format", "json", "--cluster", place).stdout)
        assert len(records(store, "samples")) == 2 * 6
    assert found[0] == found[1]
    assert call("status", tmp_path / "there.zarr").stdout
