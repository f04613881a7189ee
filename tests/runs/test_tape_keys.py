"""Keys beside estimate.tape: what does not go with it is refused before anything runs, and what may change later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import call, one_message, show, write_study
from journals import records

from hpcdp.errors import StudyError
from hpcdp.study.combinations import method_named
from hpcdp.study.file import Study
from hpcdp.study.resolving import resolve

STUDY: dict[str, Any] = {
    "study": {"name": "a", "seed": 1},
    "mechanism": {"call": "gaussian", "parameters": {"sigma": 1.0}},
    "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
    "estimate": {"tape": True, "epsilons": [0.5, 1.0]},
}
RANGE = {"range": [0.0, 1.0], "lipschitz": 1.0}


def study(**changes: Any) -> Study:
    """The study with other keys: section__key."""
    made = {section: dict(keys) for section, keys in STUDY.items()}
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            made[section][key] = value
        else:
            made[section] = value
    return Study.from_dict(made)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"estimate__etas": [1.0]}, "was given with estimate.etas;"),
        ({"estimate__renyi": [2.0]}, "was given with estimate.renyi;"),
        ({"estimate__reuse": True}, "was given with estimate.reuse = True;"),
        ({"estimate__refine": 1000}, "was given with estimate.refine = 1000;"),
        ({"estimate__time": "10 min"}, "was given with estimate.time = '10 min';"),
        ({"estimate__keep": "all"}, "was given with estimate.keep = 'all'"),
        ({"estimate__loss": "knn"}, "was given with estimate.loss = 'knn'"),
        ({"estimate__loss": "literal-knn"}, "was given with estimate.loss = 'literal-knn'"),
        ({"estimate__loss": "histogram", "estimate__parameters": RANGE}, "was given with estimate.loss = 'histogram'"),
        ({"estimate__loss": ["smooth", "learned"]}, "was given with estimate.loss = "),
        ({"estimate__target": {"precision": 0.1}}, "target.precision"),
        ({"estimate__target": {"epsilon": 1.0, "most": 10}}, "target.most: at least 4,096 with tape"),
        ({"estimate__test": 1000}, "test: at least 4,096 with tape"),
        ({"estimate__train": 10}, "train: at least 256 with tape"),
        ({"mechanism__timeout": 5.0}, "was given with mechanism.timeout, for which"),
        ({"mechanism__reproducible": False}, "was given with mechanism.reproducible = false"),
        ({"mechanism": {"call": "stored", "parameters": {"files": ["a"]}}}, "was given with mechanism.call = 'stored'"),
        ({"mechanism": {"call": "scores", "parameters": {}}}, "was given with mechanism.call = 'scores'"),
        ({"mechanism": {"call": {"command": ["x"]}}}, "was given with mechanism.call that is a program"),
        ({"pairs": {"distributional": {"call": "own:d", "values": [0, 1]}}}, "was given with pairs.distributional"),
        ({"pairs": {"domain": {"lower": 0, "upper": 1, "points": 4, "lipschitz": 1}}}, "was given with pairs.domain"),
        ({"pure": {}}, "was given with [pure]"),
        (
            {"mechanism__impossible": "own:large", "estimate__tape": False},
            "impossible with estimate.tape = true",
        ),
    ],
)
def test_what_does_not_go_with_it_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyError) as error:
        study(**changes)
    assert words in str(error.value)
    assert str(error.value).count("estimate.") >= 1
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"estimate__loss": "smooth"},
        {"estimate__loss": "auto"},
        {"estimate__target": {"epsilon": 1.0, "direction": "reverse"}},
        {"estimate__target": {"delta": 1e-9}},
        {"estimate__certify": [1.0]},
        {
            "pairs": {"relative": {"databases": [[0.0, 1.0]]}},
            "mechanism": {"call": "noisy_sum", "parameters": {"sigma": 1.0}},
        },
        {"mechanism__isolated": False},
    ],
)
def test_what_goes_with_it(changes: dict[str, Any]) -> None:
    problem, _ = resolve(study(**changes))
    assert problem.method is method_named("importance-sampling")
    assert problem.kept_stages == ()


def test_strings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def words(database, rng):\n    return str(rng.normal())\n")
    given = Study.from_dict({**STUDY, "mechanism": {"call": "own:words"}}, tmp_path)
    with pytest.raises(StudyError, match=r"estimate\.tape: of numbers and vectors of numbers; given"):
        resolve(given)


FILE: dict[str, Any] = {
    "call": "gaussian",
    "parameters": {"sigma": 4.0},
    "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]",
    "stream": "philox",
    "tape": True,
    "train": 2048,
    "test": 1 << 18,
    "epsilons": [0.0, 0.5],
    "etas": [],
    "keep": "none",
}


@pytest.mark.slow
def test_what_may_change_later(tmp_path: Path) -> None:
    """ε may be added, certify may change and test may grow: all is learned and drawn for the new study. tape, target and
    confidence stay."""
    store, keys = tmp_path / "s.zarr", dict(FILE)
    steps = [{}, {"epsilons": [0.0, 0.5, 0.7]}, {"certify": [0.5]}, {"test": 1 << 19}]
    for number, more in enumerate(steps, 1):
        study = write_study(tmp_path, **(keys := {**keys, **more}))
        call("run", study, "--store", store, "--workers", 0)
        assert len(records(store, "fits")) == number
    printed = show(store)
    call("run", study, "--store", tmp_path / "anew.zarr", "--workers", 0)
    assert show(tmp_path / "anew.zarr") == printed, "as if it had been asked for at once"
    without = {key: value for key, value in keys.items() if key != "tape"}
    for changes, words in (
        (without, "estimate.tape (true in the store"),
        ({**keys, "confidence": 0.9}, "estimate.confidence"),
        ({**keys, "train": 1024}, "estimate.train"),
        ({**keys, "epsilons": [0.0, 0.5]}, "estimate.epsilons without [0.7]"),
    ):
        message = one_message(call("run", write_study(tmp_path, **changes), "--store", store, code=2))
        assert words in message
    assert show(store) == printed
