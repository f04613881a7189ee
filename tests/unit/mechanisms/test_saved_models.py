"""Scores of models that were trained elsewhere: their order, how often each is read, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import SEED, call, one_message, stored_problem, write_study
from digits import DIGITS, QUICK, training
from journals import records
from refusing import refusal

from hpcdp.mechanisms.stored import load_scores
from hpcdp.store.layout import Layout
from hpcdp.store.samples import read_blocks

SCORE = "training:saved_score"
KEYS = {"rate": QUICK["rate"], "steps": QUICK["steps"]}


@pytest.fixture(scope="module", name="models")
def models_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 100 models of each database, a file each."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "training.py").symlink_to(DIGITS / "training.py")
    for name, rows in (("with", training.LOT + 1), ("without", training.LOT)):
        (folder / name).mkdir()
        found = training.train(training.with_canary()[:rows], 100, np.random.default_rng(rows), **QUICK)
        for number in range(100):
            training.save(folder / name / f"{number}.npz", found[:, :, number])
    return folder


def scores_settings(**changes: Any) -> dict[str, Any]:
    parameters = {"files": ["with/*.npz", "without/*.npz"], "score": SCORE, "parameters": KEYS}
    parameters |= {key: changes.pop(key) for key in ("files", "file", "score", "parameters") if key in changes}
    pairs = "given = [{ d = [0], d_prime = [1] }]"
    sizes = {"train": 40, "test": 60, "chunk": 10, "epsilons": [0.0, 1.0], "etas": []}
    return {"call": "scores", "parameters": parameters, "pairs": pairs} | sizes | changes


@pytest.mark.slow
def test_scores_of_saved_models(models: Path, tmp_path: Path, scheduler: str) -> None:
    study, store = write_study(models, name="scores.toml", **scores_settings()), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    problem = stored_problem(store)
    for number, name in enumerate(("with", "without")):
        law = problem.pair_laws[0][number]
        parts = {
            stage.name: [*read_blocks(Layout(store), stage, law, problem.schema, range(stage.chunks))]
            for stage in (problem.train, problem.test)
        }
        expected = [training.saved_score(path, **KEYS) for path in (models / name).glob("*.npz")]
        assert sorted(np.concatenate([*parts["train"], *parts["test"]])) == sorted(expected)
    shown = call("plan", study).stdout
    assert " a draw (measured)" in shown


def test_the_order_of_models_is_that_of_their_names(models: Path) -> None:
    by_glob = load_scores({"files": ["with/*.npz"], "score": SCORE, "parameters": KEYS}, models)
    names = [f"with/{number}.npz" for number in range(100)]
    by_list = load_scores({"files": [names[::-1]], "score": SCORE, "parameters": KEYS}, models)
    assert by_list.models == by_glob.models == (tuple(models / name for name in sorted(names)),)


def test_each_model_is_read_once_in_a_process(models: Path) -> None:
    read = []

    def score(path: Path) -> float:
        read.append(path.name)
        return float(path.stem)

    found = replace(load_scores({"files": ["with/*.npz"], "score": SCORE, "parameters": KEYS}, models), score=score)
    found.parameters = {}
    d, law = np.zeros(1), "0" * 32
    train, test = ([found.take(d, SEED, law, stage, start, 10) for start in (0, 10)] for stage in ("train", "test"))
    assert len(set(np.concatenate([*train, *test]))) == len(read) == 40
    np.testing.assert_array_equal(found.take(d, SEED, law, "train", 0, 20), np.concatenate(train))
    assert len(found.first(d, 16)) == 16
    assert len(found.outputs(d)) == 100
    assert len(read) == 101, "one is read twice on purpose"


@pytest.mark.slow
def test_one_broken_model_is_named_and_costs_its_chunk(models: Path, tmp_path: Path, scheduler: str) -> None:
    (tmp_path / "without").symlink_to(models / "without")
    (tmp_path / "training.py").symlink_to(DIGITS / "training.py")
    (tmp_path / "with").mkdir()
    for file in (models / "with").iterdir():
        (tmp_path / "with" / file.name).write_bytes(file.read_bytes() if file.name != "77.npz" else b"no model")
    study, store = write_study(tmp_path, **scores_settings()), tmp_path / "s.zarr"
    done = call("run", study, "--store", store, "--cluster", scheduler, code=1)
    assert f"the score of {tmp_path}/with/77.npz raised" in done.stderr
    assert len(records(store, "samples")) == 2 * (4 + 6) - 1
    (tmp_path / "with" / "77.npz").write_bytes((models / "with" / "77.npz").read_bytes())
    message = one_message(call("resume", store, "--cluster", scheduler, code=2))
    assert "the models' files, or the source of their score, changed" in message
    call("resume", store, "--cluster", scheduler, "--allow-changed-code")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such file": ({"files": ["with/*.npz", "other/*.npz"]}, "files[1]: no file in {folder} matches 'other/*.npz'"),
    "missing": ({"files": [["with/1.npz", "with/x.npz"], "without/*"]}, "no file at {folder}/with/x.npz"),
    "twice": ({"files": ["with/*.npz", "with/1*.npz"]}, "'with/1.npz' and 'with/1.npz' are one file"),
    "no list": ({"files": "with/*.npz"}, "files: a list of one glob, or one list of files, per database"),
    "no score": ({"score": None}, 'score: "package.module:callable"; given: None'),
    "unknown key": (
        {"parameters": KEYS, "file": []},
        "file: unknown key; accepted by scores: files, score, parameters",
    ),
    "wrong arguments": ({"parameters": {"rate": 1.0}}, "missing a required argument: 'steps'"),
    "too few": ({"test": 61}, "with/*.npz holds 100 outputs; accepted: at least train + test = 101"),
    "no such database": ({"pairs": "given = [{ d = [0], d_prime = [2] }]"}, "a database is one number from 0 to 1"),
    "text": ({"score": "own:text", "parameters": {}}, "is 'with'; accepted: a finite number"),
    "nan": ({"score": "own:nan", "parameters": {}}, "0.npz is nan; accepted: a finite number"),
    "lengths": ({"score": "own:lengths", "parameters": {}}, "10.npz has length 2, that of {folder}/with/0.npz 1"),
    "chance": ({"score": "own:chance", "parameters": {}}, "0.npz has another score when it is scored again"),
}
OWN = """
import math
import random


def text(path):
    return path.parent.name


def nan(path):
    return math.nan


def lengths(path):
    return [float(len(path.name))] * (len(path.stem))


def chance(path):
    return random.random()
"""


@pytest.mark.parametrize("case", REFUSED)
def test_scores_that_are_refused(case: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("with", "without", "training.py"):
        (tmp_path / name).symlink_to(models / name)
    changes, expected = REFUSED[case]
    settings = scores_settings(**changes)
    settings["parameters"] = {key: value for key, value in settings["parameters"].items() if value is not None}
    message = refusal(tmp_path, capsys, OWN, **settings)
    assert expected.format(folder=tmp_path) in message
