"""[pure], histograms, tapes and [at_risk] on SLURM: interrupted and resumed, they give the bytes of undisturbed runs here."""

import json
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from commands import call, contents, hold, release, show, started, wait_until, write_study
from disturbed import STEERED, set_pause
from journals import KINDS as RECORDS
from journals import records
from studies import TAPED
from throwaway import ThrowawaySlurm

PROFILE = Path(__file__).parents[3] / "slurm" / "test.toml"
OWN = (
    STEERED
    + """

def between(database, size, rng):
    return 1.0 / (1.0 + 2.0 ** -steered(database, size, rng))  # in (0, 1)


def shifted(database, size, rng):  # no notes of the generator's state, nor of how it is steered: a tape looks at each output
    hold()
    time.sleep(float(read("pause") or 0))
    return 0.25 * database.sum() + rng.normal(size=size)


def mean(database):
    hold()
    time.sleep(float(read("pause") or 0) / 10)
    return database.mean()


def uniform(size, rng):
    return rng.random(size)
"""
)
PAIRS = "given = [ { d = [0.0], d_prime = [0.8] }, { d = [0.0], d_prime = [1.0] } ]"
SIZES = {"train": 1500, "test": 1500, "chunk": 500, "etas": [], "keep": "none", "pairs": PAIRS}
RISK = """
[study]
name = "s"
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
KINDS = ("winner", "all", "histogram", "risk", "tape")
COMMANDS = {kind: "risk" if kind == "risk" else "run" for kind in KINDS}
WAITED_FOR = {kind: ("counts",) if kind == "tape" else RECORDS for kind in KINDS}
"""The records of which a run has one, and more to make, when it is interrupted."""


def own_study(folder: Path, kind: str) -> Path:
    if kind == "tape":
        return write_study(folder, OWN, **TAPED)
    if kind == "histogram":
        study = write_study(folder, OWN, call="own:between", loss="histogram", epsilons=[0.0, 0.5], **SIZES)
        study.write_text(f"{study.read_text()}parameters = {{ range = [0, 1], lipschitz = 12 }}\n")  # of [estimate]
        return study
    study = write_study(folder, OWN, call="own:steered", loss="kde", epsilons=[0.0, 0.5], **SIZES)
    pure = f'{study.read_text()}[pure]\nwithin = [[-4.0, 4.0]]\nat = [0.25]\ntest = "{kind}"\n'
    study.write_text(RISK if kind == "risk" else pure)
    return study


@pytest.mark.slow
def test_interrupted_and_resumed(tmp_path: Path, clean_slurm: ThrowawaySlurm, scheduler: str) -> None:
    """All studies at once: the cluster has room for the jobs of all."""
    one = tmp_path / "one.toml"
    one.write_text(PROFILE.read_text().replace("jobs = 2", "jobs = 1"))
    folders = [tmp_path / kind for kind in KINDS]
    studies = [own_study(folder, kind) for folder, kind in zip(folders, KINDS, strict=True)]
    stores = [folder / "s.zarr" for folder in folders]
    with ExitStack() as stack:
        for folder in folders:
            set_pause(folder, 0.1)  # tasks are the smaller the slower draws are
        for folder, store, kind in zip(folders, stores, KINDS, strict=True):
            hold(folder, store, 1, *WAITED_FOR[kind])
        drivers = [
            stack.enter_context(started(COMMANDS[kind], study, "--store", store, "--cluster", one, folder=folder))
            for kind, study, store, folder in zip(KINDS, studies, stores, folders, strict=True)
        ]
        running = dict(zip(stores, drivers, strict=True))

        def stopped() -> bool:
            for store, kind in zip(stores, KINDS, strict=True):
                if store in running and records(store, *WAITED_FOR[kind]):
                    running.pop(store).send_signal(signal.SIGTERM)
            return not running

        wait_until(stopped, "a record of each", 120.0)
        for driver in drivers:
            _, said = driver.communicate(timeout=60)
            assert driver.returncode == 130, said
            assert "Traceback" not in said
    before = [contents(store) for store in stores]
    assert not any(_found(store) for store in stores)
    with ExitStack() as stack:
        for folder in folders:
            release(folder)
            set_pause(folder, 0.0)
        drivers = [
            stack.enter_context(started("resume", store, "--cluster", one, folder=folder))
            for store, folder in zip(stores, folders, strict=True)
        ]
        for driver in drivers:
            _, said = driver.communicate(timeout=120)
            assert driver.returncode == 0, said
    for kind, study, store, known in zip(KINDS, studies, stores, before, strict=True):
        after = contents(store)
        assert {path: after[path] for path in known} == known, "what was committed did not change"
        here = store.with_name("here.zarr")
        call(COMMANDS[kind], study, "--store", here, "--cluster", scheduler)
        assert show(store) == show(here)
        assert _samples(store) == _samples(here)
        found = _found(store)
        if kind == "risk":
            assert [entry["rank"] < entry["within"]["pairs"] for entry in found] == [True, True]
            assert _samples(store)
        elif kind == "tape":
            assert max(row["lower"] for row in found) > 0.0
        else:
            assert found["certified"] > 0.0
            assert len(found["rows"]) == (0 if kind == "winner" else 2)


def _found(store: Path) -> Any:
    body = json.loads(show(store))
    return next(body[part] for part in ("risk", "pure", "spectrum") if part in body)


def _samples(store: Path) -> dict[Path, bytes]:
    """Every file of the samples that are kept."""
    files = (path for path in (store / "samples").rglob("*") if path.is_file())
    return {path.relative_to(store): path.read_bytes() for path in files}
