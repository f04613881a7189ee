"""Mechanisms with randomness of their own: declared, drawn once, kept."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import call, one_message, show, stored_problem, write_study
from journals import records
from programs import program_study, served
from studies import make_study

from hpcdp.errors import StudyError
from hpcdp.report.sentences import trust_words
from hpcdp.study.resolving import resolve
from hpcdp.study.sampler import Sampler

OWN_RANDOMNESS = """
import os
import numpy as np


def noisy(database, size):
    rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
    return database.sum() + rng.laplace(size=size)
"""


def test_randomness_of_its_own_must_be_declared_and_keeps_every_sample(tmp_path: Path) -> None:
    pairs = [([0.0], [1.0])]
    (tmp_path / "own_randomness.py").write_text(OWN_RANDOMNESS)
    study = make_study("own_randomness:noisy", {}, pairs, seed=1, folder=tmp_path, epsilons=[0.0], train=100, test=100)
    with pytest.raises(StudyError, match=r"and no rng.*mechanism\.reproducible = false"):
        resolve(study)

    def declared(**changes: Any) -> Any:
        data = study.to_dict()
        data["mechanism"] |= {"reproducible": False}
        for section, values in changes.items():
            data[section] |= values
        return type(study).from_dict(data, tmp_path)

    problem, _ = resolve(declared())
    assert not problem.sampler.reproducible
    for keep in ("train", "none"):
        with pytest.raises(StudyError, match=r'estimate\.keep: mechanism\.reproducible = false.* accepted: only "all"'):
            declared(estimate={"keep": keep})
    for call_, parameters in (("laplace", {"epsilon": 1.0}), ("stored", {"files": []})):
        with pytest.raises(StudyError, match=rf"mechanism\.reproducible: .*{call_}.* leave this key out"):
            Sampler.of(declared(mechanism={"call": call_, "parameters": parameters}))


def test_a_program_may_declare_it_too_but_may_not_repeat_itself(tmp_path: Path) -> None:
    served(tmp_path, "return np.random.default_rng().laplace(size=size)")
    study = program_study(tmp_path)
    study.write_text(study.read_text().replace("[mechanism]", "[mechanism]\nreproducible = false"))
    call("plan", study)
    served(tmp_path, "return np.random.default_rng(0).laplace(size=size)")
    assert "identical outputs from different seeds" in one_message(call("plan", study, code=2))


def test_failures_that_tell_are_named() -> None:
    study = make_study("laplace", {"scale": 1.0}, [([0.0], [1.0])], train=100, test=100, seed=5, epsilons=[0.0])
    changed = study.mechanism.model_copy(update={"reproducible": False})
    words = "the distribution of outputs given"
    assert words in "\n".join(trust_words(study.model_copy(update={"mechanism": changed})))
    assert words not in "\n".join(trust_words(study))


def damage_training(store: Path, law: str) -> None:
    """Flip a bit among a law's stored training samples."""
    (block,) = (store / "samples").glob(f"{law}-train-*/c/0")
    data = bytearray(block.read_bytes())
    data[len(data) // 2] ^= 1
    block.write_bytes(bytes(data))


@pytest.mark.slow
def test_damaged_samples_of_such_a_mechanism_take_along_what_rests_on_them(tmp_path: Path, scheduler: str) -> None:
    store = tmp_path / "s.zarr"

    def run(databases: list[list[float]]) -> subprocess.CompletedProcess[str]:
        study = write_study(tmp_path, OWN_RANDOMNESS, databases=databases, rows=[0], train=1000, test=1500)
        study.write_text(study.read_text().replace("[mechanism]", "[mechanism]\nreproducible = false"))
        return call("run", study, "--store", store, "--cluster", scheduler)

    def learned_and_counted() -> set[bytes]:
        return {record.read_bytes() for record in records(store, "counts", "fits")}

    both = [[0.0, 1.0], [5.0, 6.0]]
    run(both[:1])
    run(both)  # another run: pairs of one run may share a record
    first, old = json.loads(show(store)), learned_and_counted()
    run(both)
    assert json.loads(show(store)) == first, "a run that is complete changes nothing"

    damage_training(store, stored_problem(store).pair_laws[0][0])
    assert "it is computed again" in run(both).stderr
    second = json.loads(show(store))
    assert second["complete"]
    cells = zip(first["cells"], second["cells"], strict=True)
    assert {cell["pair"] for old_cell, cell in cells if cell != old_cell} == {0}, "only its own pair is done anew"
    assert 0 < len(learned_and_counted() & old) < len(old)

    old = learned_and_counted()
    run(both[:1])
    damage_training(store, stored_problem(store).pair_laws[0][1])
    run(both[:1])
    assert not learned_and_counted() & old, "of a pair that was left out, nothing tells what it rests on"
    run(both)
    assert json.loads(show(store))["complete"]
