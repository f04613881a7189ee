"""Every key of a study file says what it decides, and what its absence in a store means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import call, one_message, show, write_study

from hpcdp.study.at_risk import AtRisk
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Header
from hpcdp.study.mechanism import MechanismSection, ProgramCall
from hpcdp.study.section import ALWAYS

PAIRS = "given = [{ d = [0.0], d_prime = [1.0] }]"


def test_every_key_says_what_it_decides_and_what_is_never_stored_is_the_default_of_today():
    for section in (Header, MechanismSection, ProgramCall, Estimate, AtRisk):
        assert set(section.keys()) == set(section.model_fields)
    for section in (MechanismSection, Estimate):
        for name, key in section.keys().items():
            if key.absent is not ALWAYS:
                assert section.model_fields[name].get_default() == key.absent, name


DEFAULTS = [
    ("knn", {}, {"k": "sqrt"}, {"k": 7}),
    ("kde", {}, {"floor": 1.0}, {"floor": 0.5}),
    ("kde", {"floor": 1.0, "bandwidth": "silverman"}, {}, {"bandwidth": 0.5}),
]


@pytest.mark.slow
@pytest.mark.parametrize("loss, first, same, other", DEFAULTS)
def test_a_default_of_a_loss_that_is_written_out_makes_no_other_study(tmp_path, scheduler, loss, first, same, other):
    head = {"call": "laplace", "parameters": {"epsilon": 1.0}, "pairs": PAIRS, "train": 300, "test": 300, "etas": []}
    store, text = tmp_path / "s.zarr", write_study(tmp_path, **head, loss=loss).read_text()

    def studied(parameters):
        written = ", ".join(f"{key} = {json.dumps(value)}" for key, value in parameters.items())
        path = tmp_path / "study.toml"
        path.write_text(text + (f"parameters = {{ {written} }}\n" if parameters else ""))
        return path

    call("run", studied(first), "--store", store, "--cluster", scheduler)
    before = show(store)
    call("run", studied(same), "--store", store, "--cluster", scheduler)
    assert len(list((store / "study").glob("study-*.json"))) == 1
    assert show(store) == before
    done = call("run", studied(other), "--store", store, "--cluster", scheduler, code=2)
    assert "estimate.parameters" in one_message(done)


LOSS = """
import numpy as np
from pydantic import BaseModel, ConfigDict

from hpcdp.losses.counts import count_losses


class Slope(BaseModel):
    model_config = ConfigDict(extra="forbid")

    slope: float = 1.0


class Counter:
    def __init__(self, slope, thresholds):
        self.slope, self.thresholds = slope, thresholds

    def count(self, outputs):
        return count_losses(self.slope * outputs, self.thresholds)

    def state(self):
        return {"slope": np.array(self.slope)}


class Own:
    Parameters = Slope

    def __init__(self, parameters):
        self.slope = parameters.slope

    def refuse(self, schema, train):
        if train < 20:
            raise ValueError(f"train: at least 20; given: {train}")

    def fit(self, p, q):
        return self

    def counter(self, thresholds):
        return Counter(self.slope, thresholds)

    def restore(self, state, thresholds):
        return Counter(float(state["slope"]), thresholds)


class Half:
    fit = __init__ = lambda self, *_: None
"""
MADE = "self.slope = parameters.slope"


def own_study(folder: Path, loss: str = "own_loss:Own", **changes) -> Path:
    (folder / "own_loss.py").write_text(changes.pop("text", LOSS))
    values = {"loss": loss, "train": 500, "test": 2000, "etas": [], "call": "laplace", "pairs": PAIRS, **changes}
    return write_study(folder, **{"parameters": {"epsilon": 1.0}, **values})


@pytest.mark.slow
def test_a_loss_of_a_users_own_is_named_as_a_mechanism_is(tmp_path):
    study, store = own_study(tmp_path), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--workers", 1)
    text = call("show", store).stdout
    assert "own_loss:Own" in text  # bounds rest on its judging outputs one by one
    found = json.loads(show(store))
    assert found["complete"]
    other = own_study(tmp_path, text=LOSS.replace("slope: float = 1.0", "slope: float = 2.0"))
    message = one_message(call("run", other, "--store", store, "--workers", 1, code=2))
    assert "estimate.loss: the source of own_loss:Own changed since the store was made" in message
    (tmp_path / "own_loss.py").unlink()
    assert json.loads(show(store)) == found  # reading loads no code
    message = one_message(call("resume", store, code=2))
    assert "estimate.loss: cannot import module 'own_loss'" in message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loss": "own_loss:None_such"}, "estimate.loss: module 'own_loss' has no 'None_such'"),
        ({"loss": "other_loss:Own"}, "estimate.loss: cannot import module 'other_loss'"),
        (
            {"loss": "own_loss:Half"},
            "estimate.loss: own_loss:Half: its class gave a Half without restore; see docs/exten",
        ),
        ({"train": 10}, "estimate.train: at least 20; given: 10"),
        (
            {"loss": ["knn", "own_loss:Own"], "refine": 100, "keep": "none"},
            "loss: several are losses of hpcdp's own; giv",
        ),
        ({"loss": "own_los"}, "loss: 'own_los' is unknown; accepted: auto, frequency"),
        ({"text": LOSS.replace(MADE, "raise KeyError('init')")}, "own_loss:Own: its class raised KeyError: 'init'"),
        ({"text": LOSS.replace(MADE, "raise SystemExit(0)")}, "own_loss:Own: its class raised SystemExit: 0"),
    ],
)
def test_a_loss_that_cannot_be_used_is_refused_before_anything_runs(tmp_path, changes, words):
    done = call("run", own_study(tmp_path, **changes), "--store", tmp_path / "s.zarr", code=2)
    assert words in one_message(done)
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.slow
def test_a_wrong_parameter_of_it_is_named(tmp_path):
    study = own_study(tmp_path)
    head, _, tail = study.read_text().partition("[estimate]\n")
    for given, words in {
        "slope = 'steep'": "slope: ",
        "slop = 1.0": "slop: unknown; accepted by own_loss:Own: slope",
    }.items():
        study.write_text(f"{head}[estimate]\nparameters = {{ {given} }}\n{tail}")
        message = one_message(call("run", study, "--store", tmp_path / "s.zarr", code=2))
        assert f"estimate.parameters.{words}" in message, message


BAD = """
from own_loss import Counter, Own


class Odd(Counter):
    def count(self, outputs):
        found = super().count(outputs)
        return {count}


class Bad(Own):
    def fit(self, p, q):
        return {fit}

    def counter(self, thresholds):
        return Odd(self.slope, thresholds)
"""
WRONG = [
    ({"count": "found + 1"}, "count gave int64 of shape (11,) that add up to"),
    ({"count": "found.astype(float)"}, "count gave float64 of shape (11,)"),
    ({"count": "1 / 0"}, "count raised ZeroDivisionError: division by zero"),
    ({"fit": "None"}, "fit gave a NoneType without counter; see docs/extending.md"),
    ({"fit": "int('two\\nlines')"}, "fit raised ValueError: invalid literal for int"),
    ({"fit": "next(x for x in [])"}, "fit raised StopIteration ("),  # for which generators have rules of their own
]


@pytest.mark.few
@pytest.mark.parametrize(("returned", "words"), WRONG)
def test_a_loss_that_fails_costs_its_pair_and_no_store(tmp_path, scheduler, returned, words):
    own_study(tmp_path)
    (tmp_path / "bad_loss.py").write_text(BAD.format(**{"count": "found", "fit": "self", **returned}))
    study, store = own_study(tmp_path, loss="bad_loss:Bad"), tmp_path / "s.zarr"
    error = call("run", study, "--store", store, "--cluster", scheduler, code=1).stderr
    assert "pair 0" in error
    assert f"estimate.loss: bad_loss:Bad: {words}" in error
    assert json.loads(show(store))["cells"] == []  # nothing that is wrong was stored
