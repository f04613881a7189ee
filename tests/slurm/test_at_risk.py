"""[at_risk] on SLURM: interrupted and resumed, its pairs are those of an undisturbed run here, byte for byte."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from commands import call, contents, records, show, started, wait_until
from disturbed import set_pause
from throwaway import ThrowawaySlurm

PROFILE = Path(__file__).parents[2] / "slurm" / "test.toml"
QUERY = """
import os
import time


def mean(database):
    try:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pause")) as file:
            time.sleep(float(file.read()))
    except FileNotFoundError:
        pass
    return database.mean()


def uniform(size, rng):
    return rng.random(size)
"""
STUDY = """
[study]
name = "people"
seed = 11

[at_risk]
query = "own:mean"
population = { call = "own:uniform" }
rows = 30
pairs = 600
scale = 0.02
cover = [0.5, 0.9]
chunk = 10
"""


@pytest.mark.slow
def test_interrupted_and_resumed(tmp_path: Path, clean_slurm: ThrowawaySlurm, scheduler: str) -> None:
    (tmp_path / "own.py").write_text(QUERY)
    study, store, one = tmp_path / "study.toml", tmp_path / "s.zarr", tmp_path / "one.toml"
    study.write_text(STUDY)
    one.write_text(PROFILE.read_text().replace("jobs = 2", "jobs = 1"))
    set_pause(tmp_path, 0.02)
    with started("risk", study, "--store", store, "--cluster", one, folder=tmp_path) as driver:
        wait_until(lambda: len(records(store)) >= 1, "a record", 120.0)
        driver.send_signal(signal.SIGTERM)
        _, said = driver.communicate(timeout=60)
        assert driver.returncode == 130, said
        assert "Traceback" not in said
    before = contents(store)
    assert json.loads(show(store)) == {"name": "people", "complete": False, "confidence": 0.95, "risk": []}
    set_pause(tmp_path, 0.0)
    with started("resume", store, "--cluster", one, folder=tmp_path) as driver:
        _, said = driver.communicate(timeout=300)
        assert driver.returncode == 0, said
    after = contents(store)
    assert {path: after[path] for path in before} == before, "what was committed did not change"
    here = tmp_path / "here.zarr"
    call("risk", study, "--store", here, "--cluster", scheduler)
    assert show(store) == show(here)
    assert _samples(store) == _samples(here)


def _samples(store: Path) -> dict[Path, bytes]:
    """Every file of the pairs, and of the root arrays made of them."""
    folders = ("samples", "risk_sensitivity", "risk_loss", "risk_numbers")
    files = (path for folder in folders for path in (store / folder).rglob("*") if path.is_file())
    return {path.relative_to(store): path.read_bytes() for path in files}
