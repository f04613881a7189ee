"""learned: ready and foreign classifiers against exact spectra, their priors, calibration, and what is stored.

An estimate may miss by 5 standard errors on both sides, and be low by 0.01 more, the allowance for a classifier.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import call, show, write_study
from learning import LDA, REGRET, SVC, agree, both, laplace, learned, mixture, sides, thirds, vector
from studies import make_study, run
from threadpoolctl import threadpool_limits

import hpcdp
from hpcdp.analytic import GaussianShift, LaplaceShift
from hpcdp.analytic.laplace_vector import LaplaceVector
from hpcdp.losses import make_loss
from hpcdp.losses.learned._columns import Columns
from hpcdp.losses.protocol import Side


@pytest.mark.parametrize("classifier", ["mlp", "gradient-boosting"])
@pytest.mark.parametrize("draw, exact", [(laplace, both(LaplaceShift(1.0))), (mixture, thirds)])
def test_few_columns(classifier, draw, exact):
    agree(learned(classifier).fit(*sides(draw, 1 << 15)), draw, exact, 1 << 17, seed=1)


@pytest.mark.parametrize("classifier", ["logistic", LDA])
def test_a_linear_loss(classifier):
    draw = vector(np.full(5, 5**-0.5), "normal")
    agree(learned(classifier).fit(*sides(draw, 1 << 15)), draw, both(GaussianShift(1.0)), 1 << 17, seed=2)


@pytest.mark.parametrize(
    "noise, shifts, curve, size",
    [
        ("normal", np.full(50, 50**-0.5) / 4.844805, GaussianShift(1 / 4.844805), 1 << 15),
        ("laplace", np.full(50, 1 / 50), LaplaceVector(np.full(50, 1 / 50)), 1 << 16),
        ("laplace", np.eye(50)[0], LaplaceShift(1.0), 1 << 15),
    ],
    ids=["Gaussian", "Laplace, spread", "Laplace, one column"],
)
def test_fifty_columns(noise, shifts, curve, size):
    """The pairs of Lu et al., Figures 5b and 5c; `benchmarks.learned` has them at the size of a default study."""
    draw = vector(shifts, noise)
    model = learned().fit(*sides(draw, size))
    agree(model, draw, both(curve), 1 << 16, seed=3, epsilons=(0.01, 0.1, 0.3, 0.5, 0.7, 0.95))


def test_the_reference_numbers_of_the_spread_pair():
    epsilons = np.array([0.0, 0.01, 0.03, 0.05, 0.07, 0.09, 0.11, 0.13, 0.15, 0.17, 0.19])
    table = [
        0.056052,
        0.051706,
        0.043217,
        0.035675,
        0.029084,
        0.023383,
        0.018558,
        0.014502,
        0.011183,
        0.008476,
        0.00634,
    ]
    assert LaplaceVector(np.full(50, 1 / 50)).delta(epsilons, "forward") == pytest.approx(table, abs=1e-5)


@pytest.mark.parametrize("calibrate", ["platt", "isotonic"])
def test_a_decision_function_alone_is_calibrated(calibrate):
    draw = vector(np.array([0.6, 0.8]), "normal")
    model = learned(SVC, calibrate=calibrate).fit(*sides(draw, 1 << 15))
    agree(model, draw, both(GaussianShift(1.0)), 1 << 17, seed=4)


def test_calibration_learns_from_samples_that_the_classifier_never_saw(monkeypatch):
    seen = []

    class Memory:
        """Knows its training outputs by heart, and nothing else."""

        def fit(self, rows, labels):
            seen.append(rows[:, 0].copy())
            self.known = dict(zip(rows[:, 0].tolist(), labels.tolist(), strict=True))
            return self

        def predict_proba(self, rows):
            chance = np.array([self.known.get(x, 0.5) for x in rows[:, 0].tolist()])
            return np.column_stack([1 - chance, chance])

    monkeypatch.setattr("hpcdp.losses.learned._estimator.make_estimator", lambda *_: Memory())
    p, q = sides(laplace, 1000)
    sure = learned("some.module:Memory").fit(p, q).score(p.outputs)
    assert np.isposinf(sure).all(), "a probability of 1 is an infinite loss"
    model = learned("some.module:Memory", calibrate="platt", held_out=0.25).fit(p, q)
    held = ~np.isin(p.outputs, seen[-1])
    assert held.sum() == 250
    assert np.abs(model.score(p.outputs)[held]).max() < 0.3, "on held-out samples it knew nothing"


@pytest.mark.parametrize("parameters", [{}, {"calibrate": "platt"}], ids=["as it is", "calibrated"])
@pytest.mark.parametrize("classifier", ["logistic", "mlp", LDA])
def test_priors_of_unequal_and_filtered_sides(classifier, parameters):
    """Outputs above 0 alone are kept; L of N(0, 1) and N(1, 1) is 1/2 − x, whatever the draws of each side."""
    rng = np.random.default_rng(5)
    p, q = rng.normal(size=40_000), rng.normal(1.0, size=10_000)
    model = learned(classifier, **parameters).fit(Side(p[p > 0], 40_000), Side(q[q > 0], 10_000))
    x = np.linspace(0.2, 1.8, 9)
    assert model.score(x) == pytest.approx(0.5 - x, abs=0.15)


@pytest.mark.parametrize(
    "parameters",
    [
        {"options": {"max_iter": 3}},
        {"options": {"max_iter": 2, "activation": "tanh", "hidden_layer_sizes": [5]}, "calibrate": "isotonic"},
        {"classifier": "logistic", "calibrate": "platt"},
        {"classifier": "gradient-boosting", "options": {"max_iter": 9}},
        {"classifier": SVC, "calibrate": "isotonic"},
        {"classifier": "sklearn.ensemble:RandomForestClassifier", "options": {"n_estimators": 5}},
    ],
)
def test_equal_samples_give_equal_bits_and_a_state_gives_them_again(parameters):
    p, q = sides(mixture, 2000)
    thresholds = np.linspace(-2, 2, 41)
    fresh = mixture(np.random.default_rng(6), 5000, 0)
    loss = make_loss("learned", parameters)
    counter = loss.fit(p, q).counter(thresholds)
    with threadpool_limits(2):
        again = loss.fit(p, q).counter(thresholds)
        assert again.model.score(fresh).tobytes() == counter.model.score(fresh).tobytes()
    restored = make_loss("learned", parameters).restore(counter.state(), thresholds)
    assert restored.model.score(fresh).tobytes() == counter.model.score(fresh).tobytes()
    assert restored.count(fresh).tolist() == counter.count(fresh).tolist()
    assert counter.count(fresh).sum() == 5000
    assert all(array.dtype != object for array in counter.state().values())


def test_the_seed_decides():
    p, q = sides(mixture, 2000)
    scores = [learned(options={"max_iter": 2}, seed=seed).fit(p, q).score(p.outputs) for seed in (0, 1)]
    assert not np.array_equal(*scores)


def test_no_number_is_no_evidence(monkeypatch):
    class Unsure:
        def fit(self, rows, labels):
            return self

        def predict_proba(self, rows):
            return np.full((rows.shape[0], 2), np.nan)

    monkeypatch.setattr("hpcdp.losses.learned._estimator.make_estimator", lambda *_: Unsure())
    p, q = sides(laplace, 100)
    assert learned("some.module:Unsure").fit(p, q).score(p.outputs).tolist() == [0.0] * 100


def test_columns():
    rng = np.random.default_rng(7)
    rows = np.column_stack(
        [
            rng.standard_cauchy(4000),
            rng.integers(0, 3, 4000),
            np.full(4000, 7.0),
            np.where(rng.random(4000) < 0.5, 0.0, rng.normal(size=4000)),
        ]
    )
    columns = Columns.learn(rows[:2000], rows[2000:], 3)
    assert columns.scaled.tolist() == [0, 3], "few values and a constant have no scale"
    assert columns.held.tolist() == [1, 1, 3]
    assert columns.value[2] == 0.0, "a value that many outputs hold, among numbers"
    assert columns.stepped.tolist() == [0, 0, 0, 3, 3, 3]
    found = columns.features(rows)
    assert found.shape == (4000, columns.size) == (4000, 2 + 3 + 6)
    assert np.abs(found).max() < 30, "heavy tails are small"
    order = np.argsort(rows[:, 0])
    assert (np.diff(found[order, 0]) >= 0).all(), "but keep their order"
    assert found[:, 5:8].mean(axis=0) == pytest.approx([0.75, 0.5, 0.25], abs=0.002)
    assert columns.features(rows, np.float32).dtype == np.float32


def test_a_study_with_the_network(client, tmp_path: Path):
    study = make_study(
        "gaussian",
        {"sigma": 1.0},
        [([0.0, 0.0], [0.6, 0.8])],
        seed=8,
        loss="learned",
        train=20_000,
        test=60_000,
        chunk=10_000,
        epsilons=[0.0, 0.5, 1.0],
    )
    result = run(study, tmp_path / "s.zarr", client)
    assert len(result.cells()) == 6
    for cell in result.cells():
        truth = float(GaussianShift(1.0).delta(np.array([cell["epsilon"]]), "forward")[0])
        assert cell["lower"] <= truth
        assert truth - 5 * cell["standard_error"] - REGRET <= cell["delta"] <= truth + 5 * cell["standard_error"]


MODULE = '''
from pathlib import Path

from sklearn.linear_model import LogisticRegression


def noise(database, size, rng):
    return database[0] + rng.normal(size=size)


class Watched(LogisticRegression):
    """Notes how often it learns, and from how many rows."""

    def __init__(self, log="log"):
        super().__init__()
        self.log = log

    def fit(self, rows, labels):
        with Path(self.log).open("a") as file:
            file.write(f"{len(rows)}\\n")
        return super().fit(rows, labels)
'''


def test_a_resumed_run_does_not_learn_again(client, tmp_path: Path):
    (tmp_path / "watched_noise.py").write_text(MODULE)
    log, store = tmp_path / "log", tmp_path / "s.zarr"

    def study(test: int, *more: float):
        return make_study(
            "watched_noise:noise",
            {},
            [([0.0], [1.0])],
            seed=9,
            folder=tmp_path,
            loss="learned",
            loss_parameters={"classifier": "watched_noise:Watched", "options": {"log": str(log)}},
            train=100_000,
            test=test,
            chunk=20_000,
            epsilons=[0.0, 0.5, *more],
        )

    def learnings() -> int:
        return log.read_text().split().count("200000")

    first = run(study(80_000), store, client)
    assert learnings() == 1, "once for all tasks that count"
    for record in (store / "records" / "counts").iterdir():
        record.unlink()
    assert hpcdp.resume(store, client=client()).to_json() == first.to_json()
    longer = run(study(200_000), store, client)
    assert learnings() == 1
    finer = run(study(200_000, 0.25), store, client)
    assert learnings() == 1, "an added ε is counted with what was learned"
    assert finer["exceed"][:, :, [0, 2]].tolist() == longer["exceed"].tolist()
    cell, exact = longer.cells()[0], float(GaussianShift(1.0).delta(np.zeros(1), "forward")[0])
    assert abs(cell["delta"] - exact) <= 5 * cell["standard_error"]


def test_a_class_in_the_studys_folder(scheduler, tmp_path: Path):
    settings = {
        "call": "laplace",
        "parameters": {"scale": 1.0},
        "databases": [[0.0]],
        "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]",
        "loss": "learned",
    }
    path, store = write_study(tmp_path, MODULE, **settings), tmp_path / "s.zarr"
    text = path.read_text()
    options = f'parameters = {{ classifier = "own:Watched", options = {{ log = "{tmp_path / "log"}" }} }}'
    path.write_text(text + options + "\n")  # of [estimate], the last section
    call("run", path, "--store", store, "--cluster", scheduler)
    assert json.loads(show(store))["complete"]
    (tmp_path / "own.py").write_text(MODULE + "\n")
    error = call("resume", store, "--cluster", scheduler, code=2).stderr
    assert "estimate.parameters: the source of own:Watched changed" in error
