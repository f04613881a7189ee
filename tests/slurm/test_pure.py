"""[pure] on SLURM: interrupted and resumed, the winner's and all pairs' samples give the bytes of an undisturbed run here."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from commands import call, contents, records, show, started, wait_until, write_study
from disturbed import STEERED, set_pause
from throwaway import ThrowawaySlurm

PROFILE = Path(__file__).parents[2] / "slurm" / "test.toml"
PAIRS = "given = [ { d = [0.0], d_prime = [0.8] }, { d = [0.0], d_prime = [1.0] } ]"
SIZES = {"call": "own:steered", "train": 1500, "test": 1500, "chunk": 500, "loss": "kde", "epsilons": [0.0, 0.5]}
TESTED = ("winner", "all")


def pure_study(folder: Path, tested: str) -> Path:
    study = write_study(folder, STEERED, **SIZES, pairs=PAIRS, etas=[], keep="none")
    study.write_text(f'{study.read_text()}[pure]\nwithin = [[-4.0, 4.0]]\nat = [0.25]\ntest = "{tested}"\n')
    return study


@pytest.mark.slow
def test_interrupted_and_resumed(tmp_path: Path, clean_slurm: ThrowawaySlurm, scheduler: str) -> None:
    """Both studies at once: the cluster has room for the jobs of both."""
    one = tmp_path / "one.toml"
    one.write_text(PROFILE.read_text().replace("jobs = 2", "jobs = 1"))
    folders = [tmp_path / tested for tested in TESTED]
    studies = [pure_study(folder, tested) for folder, tested in zip(folders, TESTED, strict=True)]
    stores = [folder / "s.zarr" for folder in folders]
    with ExitStack() as stack:
        for folder in folders:
            set_pause(folder, 0.3)
        drivers = [
            stack.enter_context(started("run", study, "--store", store, "--cluster", one, folder=folder))
            for study, store, folder in zip(studies, stores, folders, strict=True)
        ]
        for driver, store in zip(drivers, stores, strict=True):
            wait_until(lambda store=store: len(records(store)) >= 1, "a record", 120.0)
            driver.send_signal(signal.SIGTERM)
        for driver in drivers:
            _, said = driver.communicate(timeout=60)
            assert driver.returncode == 130, said
            assert "Traceback" not in said
    before = [contents(store) for store in stores]
    assert all(json.loads(show(store))["pure"] is None for store in stores)
    with ExitStack() as stack:
        for folder in folders:
            set_pause(folder, 0.0)
        for store, folder in zip(stores, folders, strict=True):
            driver = stack.enter_context(started("resume", store, "--cluster", one, folder=folder))
            drivers.append(driver)
        for driver in drivers[2:]:
            _, said = driver.communicate(timeout=120)
            assert driver.returncode == 0, said
    for tested, study, store, known in zip(TESTED, studies, stores, before, strict=True):
        after = contents(store)
        assert {path: after[path] for path in known} == known, "what was committed did not change"
        here = store.with_name("here.zarr")
        call("run", study, "--store", here, "--cluster", scheduler)
        assert show(store) == show(here)
        found = json.loads(show(store))["pure"]
        assert found["certified"] > 0.0
        assert len(found["rows"]) == (2 if tested == "all" else 0)
