"""Classifiers and losses of somebody else that judge an output by what else is in its batch are refused everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, show, write_study
from learning import LDA, learned, sides, vector

from hpcdp.errors import MechanismError, StudyError
from hpcdp.losses import LOSSES, foreign_code, refuse_unusable
from hpcdp.losses._alone import has_equal_scores, refuse_batch_dependent
from hpcdp.losses.counts import count_losses
from hpcdp.losses.parameters import KnnKind
from hpcdp.mechanisms.outputs import Schema
from hpcdp.methods.cross_fitting import count_part
from hpcdp.study.reuse import Fold, Part

# Tells D from D' by the mean of a batch, so almost surely, where one output tells next to nothing.
CROWD = """
import numpy as np


def noisy(database, size, rng):
    return database.sum() + rng.laplace(size=size)


class Crowd:
    least = 1

    def fit(self, rows, labels):
        self.middle = rows.mean()
        return self

    def predict_proba(self, rows):
        far = rows.mean() if len(rows) >= self.least else self.middle
        chance = np.full(len(rows), 0.999 if far > self.middle else 0.001)
        return np.column_stack([1 - chance, chance])


class LateCrowd(Crowd):
    least = 201


class Keeper:
    # Scores rows that it learned from by themselves, and new ones by their mean; those of two columns too where trial.

    def __init__(self, trial=False):
        self.trial = trial

    def fit(self, rows, labels):
        self.seen = set(rows[:, 0].tolist())
        means = [rows[labels == label, 0].mean() for label in (0, 1)]
        self.middle, self.sign = sum(means) / 2, np.sign(means[1] - means[0])
        return self

    def predict_proba(self, rows):
        new = np.array([x not in self.seen for x in rows[:, 0].tolist()])
        odds = 0.1 * self.sign * np.sign(rows[:, 0] - self.middle)
        if new.any() and (self.trial or rows.shape[1] == 1):
            odds[new] = 3 * self.sign * np.sign(rows[new, 0].mean() - self.middle)
        chance = 1 / (1 + np.exp(-odds))
        return np.column_stack([1 - chance, chance])
"""


@pytest.fixture(name="classes")
def classes_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crowds.py").write_text(CROWD)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize(
    "name, options",
    [("Crowd", {}), ("Keeper", {"trial": True})],
    ids=["by the mean of a batch", "by itself where it was learned from"],
)
def test_what_trial_outputs_show_is_refused_before_anything_runs(name: str, options: dict) -> None:
    parameters = {"classifier": f"crowds:{name}", "options": options}
    with pytest.raises(StudyError, match=rf"crowds:{name} .* in another batch \(reversed, in halves, singly\)"):
        refuse_unusable("learned", parameters, Schema("float", None), 1000)


def study_of(folder: Path, classifier: str, **sizes: Any) -> Path:
    """Of two laws that are nearly one: e^0.08 bounds their ratio."""
    near = "given = [{ d = [0.0], d_prime = [0.08] }]"
    study = write_study(folder, CROWD, pairs=near, loss="learned", **sizes)
    study.write_text(
        study.read_text() + f'parameters = {{ classifier = "{classifier}" }}\n'
    )  # of [estimate], the last section
    return study


@pytest.mark.slow
def test_sequential_audits_look_at_each_block_before_they_settle(tmp_path: Path, scheduler: str) -> None:
    """The claim is true; by the mean of a block the laws look far apart."""
    command = ("--claim", "dp(epsilon=0.08)", "--sequential", "--batch", 500, "--budget", 1000, "--cluster", scheduler)
    error = call("audit", study_of(tmp_path, "own:Keeper"), *command, "--store", tmp_path / "s.zarr", code=1).stderr
    assert "own:Keeper judges an output differently in another batch (10 outputs together" in error
    said = call("audit", study_of(tmp_path, LDA), *command, "--store", tmp_path / "honest.zarr").stdout
    assert f"also rest on {LDA} judging each output by itself" in said
    assert "on every block before its bet was settled" in said


@pytest.mark.slow
def test_what_only_a_chunk_shows_fails_the_run(tmp_path: Path, scheduler: str) -> None:
    """δ(0) is 1 − e^(−0.04) = 0.04 here, and by the mean of a chunk it looks like 1."""
    sizes: dict[str, Any] = {"train": 5000, "test": 10_000, "chunk": 5000, "epsilons": [0.0, 1.0], "etas": []}
    study = study_of(tmp_path, "own:LateCrowd", **sizes)
    error = call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler, code=1).stderr
    assert "own:LateCrowd judges an output differently in another batch (5,000 outputs together" in error
    assert not json.loads(show(tmp_path / "s.zarr"))["cells"], "nothing is certified"
    study = study_of(tmp_path, LDA, **sizes)
    said = call("run", study, "--store", tmp_path / "honest.zarr", "--cluster", scheduler).stdout
    assert f"also rest on {LDA} judging each output by itself" in said
    assert f"also rest on {LDA}" in call("verify", tmp_path / "honest.zarr", "--claim", "dp(epsilon=1)").stdout
    assert f"also rest on {LDA}" in call("show", tmp_path / "honest.zarr", "--delta", "0.1").stdout


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (LDA, {}),
        ("sklearn.ensemble:RandomForestClassifier", {"n_estimators": 5}),
        ("sklearn.neighbors:KNeighborsClassifier", {}),
        ("sklearn.neural_network:MLPClassifier", {"max_iter": 5}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_honest_classifiers_pass(path: str, options: dict) -> None:
    rng = np.random.default_rng(1)
    draw = vector(np.full(8, 0.3), "normal")
    counter = learned(path, options=options).fit(*sides(draw, 1000)).counter(np.array([0.0, 1.0]))
    refuse_batch_dependent(counter, rng.normal(size=(1500, 8)), path)


def test_rounding_is_no_difference() -> None:
    """Sums of float32 products depend on how they are cut, in their last digits, and libraries cut large batches otherwise."""
    rng = np.random.default_rng(2)
    layers = [rng.normal(size=(300, 300)).astype(np.float32) / 17 for _ in range(3)]

    def score(rows: np.ndarray) -> np.ndarray:
        values = rows.astype(np.float32)
        for layer in layers:
            parts = (slice(0, 150), slice(150, 300)) if len(rows) > 1000 else (slice(0, 300),)
            values = np.maximum(sum(values[:, part] @ layer[part] for part in parts), 0)
        return np.asarray(values.mean(axis=1) - np.float32(0.1), np.float64)

    rows = rng.normal(size=(3000, 300))
    assert not np.array_equal(score(rows)[:500], score(rows[:500]))
    assert has_equal_scores(score, rows)
    assert not has_equal_scores(lambda some: score(some) + 0.01 * some.mean(), rows)


class Given:
    """Counts by this function of a batch, and has a score where one is given."""

    def __init__(self, counted: Any, scored: Any = None) -> None:
        self.counted = counted
        if scored is not None:
            self.score = scored

    def count(self, outputs: np.ndarray) -> np.ndarray:
        return count_losses(self.counted(outputs), np.array([0.0, 1.0]))

    def state(self) -> None:
        return None


def sign_of_mean(outputs: np.ndarray) -> np.ndarray:
    return np.full(outputs.shape[0], np.sign(outputs.mean()))


def test_counts_of_a_loss_that_has_no_score_or_a_sound_one() -> None:
    outputs = np.random.default_rng(3).normal(0.1, size=9000)
    refuse_batch_dependent(Given(lambda x: x), outputs, "mine")
    for some in (outputs, outputs[:40], outputs[:2]):
        with pytest.raises(MechanismError, match=r"mine judges an output differently in another batch"):
            refuse_batch_dependent(Given(lambda x: x - x.mean()), some, "mine")
    with pytest.raises(MechanismError, match="mine judges"):  # in large batches only
        refuse_batch_dependent(Given(lambda x: 2 * sign_of_mean(x) if x.size > 1000 else x), outputs, "mine")
    with pytest.raises(MechanismError, match="mine judges"):
        refuse_batch_dependent(Given(sign_of_mean, lambda x: 1.0 * x), outputs, "mine")


@pytest.mark.usefixtures("classes")
def test_pools() -> None:
    rng = np.random.default_rng(5)
    p, q = rng.normal(size=2000), rng.normal(0.1, size=2000)
    loss, name = learned("crowds:LateCrowd"), "crowds:LateCrowd"
    part = Part("fold", (Fold((range(1000),), range(1000, 2000)),))
    thresholds = np.array([0.0])
    count_part(loss, (p, q), part, thresholds, 500)
    with pytest.raises(MechanismError, match="crowds:LateCrowd judges"):
        count_part(loss, (p, q), part, thresholds, 500, name)


def test_whose_judgement_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert foreign_code("learned", {"classifier": LDA}) == LDA
    assert foreign_code("learned", {"classifier": "mlp"}) is None
    assert foreign_code("knn", {}) is None
    monkeypatch.setitem(LOSSES, "mine", KnnKind())  # type: ignore[arg-type]
    assert foreign_code("mine", {}) == "mine"
    assert foreign_code("own:Loss", {}) == "own:Loss"
