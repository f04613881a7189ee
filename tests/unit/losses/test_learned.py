"""learned: against exact spectra, its priors and calibration; what is stored; what it refuses, changed states too.

An estimate may miss by 5 standard errors on both sides, and be low by 0.01 more, the allowance for a classifier.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import tomllib
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn.pipeline
from commands import call, show, write_study
from journals import records
from learning import LDA, SVC, agree, both, laplace, learned, mixture, sides, thirds, vector
from numpy.lib.npyio import NpzFile
from sklearn.datasets import load_svmlight_file
from sklearn.utils import all_estimators
from studies import make_study, run
from threadpoolctl import threadpool_limits

import hpcdp
from hpcdp.analytic import GaussianShift, LaplaceShift
from hpcdp.errors import DamagedError, MechanismError, StudyError
from hpcdp.losses import make_loss, refuse_unusable, validate_parameters
from hpcdp.losses.learned._estimator import pack, unpack
from hpcdp.losses.learned.parameters import READY
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.outputs import Schema

REALS = Schema("float", None)

# Accuracy


@pytest.mark.slow
@pytest.mark.parametrize("classifier", ["mlp", "gradient-boosting"])
@pytest.mark.parametrize("draw, exact", [(laplace, both(LaplaceShift(1.0))), (mixture, thirds)])
def test_few_columns(classifier, draw, exact):
    agree(learned(classifier).fit(*sides(draw, 1 << 15)), draw, exact, 1 << 17, seed=1)


@pytest.mark.parametrize(
    "shifts, classifier, parameters",
    [
        (np.full(5, 5**-0.5), "logistic", {}),
        (np.full(5, 5**-0.5), LDA, {}),
        (np.array([0.6, 0.8]), SVC, {"calibrate": "platt"}),  # which has a decision function alone
        (np.array([0.6, 0.8]), SVC, {"calibrate": "isotonic"}),
    ],
)
def test_a_linear_loss(shifts, classifier, parameters):
    draw = vector(shifts, "normal")
    model = learned(classifier, **parameters).fit(*sides(draw, 1 << 15))
    agree(model, draw, both(GaussianShift(1.0)), 1 << 17, seed=2)


# Calibration, priors, bits, columns

BY_HEART = """
import numpy as np


class Memory:
    # Knows its training outputs by heart, and nothing else.
    def fit(self, rows, labels):
        self.known = dict(zip(rows[:, 0].tolist(), labels.tolist(), strict=True))
        return self

    def predict_proba(self, rows):
        chance = np.array([self.known.get(x, 0.5) for x in rows[:, 0].tolist()])
        return np.column_stack([1 - chance, chance])


class Unsure(Memory):
    def predict_proba(self, rows):
        return np.full((len(rows), 2), np.nan)
"""


@pytest.fixture(name="module")
def module_fixture(tmp_path, monkeypatch):
    """Makes a module of a user, which can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda name, text: (tmp_path / f"{name}.py").write_text(text)


def test_calibration_learns_from_samples_that_the_classifier_never_saw(module):
    module("by_heart", BY_HEART)
    p, q = sides(laplace, 1000)
    sure = learned("by_heart:Memory").fit(p, q).score(p.outputs)
    assert np.isposinf(sure).all(), "a probability of 1 is an infinite loss"
    model = learned("by_heart:Memory", calibrate="platt", held_out=0.25).fit(p, q)
    known = np.isin(p.outputs, list(model.classifier.fitted.known))
    assert known.sum() == 750
    assert np.abs(model.score(p.outputs)[~known]).max() < 0.3, "on held-out samples it knew nothing"
    assert learned("by_heart:Unsure").fit(p, q).score(p.outputs).tolist() == [0.0] * 1000, "no number is no evidence"


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


# Studies

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


@pytest.mark.slow
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
    for record in records(store, "counts"):
        record.unlink()
    assert hpcdp.resume(store, client=client()).to_json() == first.to_json()
    longer = run(study(200_000), store, client)
    assert learnings() == 1
    finer = run(study(200_000, 0.25), store, client)
    assert learnings() == 1, "an added ε is counted with what was learned"
    assert finer["exceed"][:, :, [0, 2]].tolist() == longer["exceed"].tolist()
    cell, exact = longer.cells()[0], float(GaussianShift(1.0).delta(np.zeros(1), "forward")[0])
    assert cell["lower"] <= exact
    assert abs(cell["delta"] - exact) <= 5 * cell["standard_error"]


@pytest.mark.slow
def test_a_class_in_the_studys_folder(scheduler, tmp_path: Path):
    pairs, store = "given = [ { d = [0.0], d_prime = [1.0] } ]", tmp_path / "s.zarr"
    path = write_study(tmp_path, MODULE, call="laplace", parameters={"scale": 1.0}, pairs=pairs, loss="learned")
    options = f'parameters = {{ classifier = "own:Watched", options = {{ log = "{tmp_path / "log"}" }} }}'
    path.write_text(path.read_text() + options + "\n")  # of [estimate], the last section
    call("run", path, "--store", store, "--cluster", scheduler)
    assert json.loads(show(store))["complete"]
    (tmp_path / "own.py").write_text(MODULE + "\n")
    error = call("resume", store, "--cluster", scheduler, code=2).stderr
    assert "estimate.parameters: the source of own:Watched changed" in error


# Refusals


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"classifier": "svm"}, ["parameters.classifier", "mlp, gradient-boosting, logistic", "given: 'svm'"]),
        ({"options": {"hidden": 3}}, ["options: hidden is unknown", "hidden_layer_sizes", "accepted by mlp"]),
        ({"classifier": "logistic", "options": {"steps": -1}}, ["steps: at least 0"]),
        ({"calibrate": "beta"}, ["parameters.calibrate", "'platt', 'isotonic' or False"]),
        ({"held_out": 0.9}, ["parameters.held_out", "0.5"]),
        ({"layers": 3}, ["parameters.layers: unknown; accepted by learned: classifier, options, calibrate"]),
    ],
)
def test_wrong_parameters(parameters, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the words are compared below)
        validate_parameters("learned", parameters)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"classifier": "sklearn.svm:Linear"}, ["estimate.parameters.classifier: cannot import 'sklearn.svm:Linear'"]),
        ({"classifier": SVC}, ["parameters.calibrate", "decision_function", '"platt", "isotonic"']),
        (
            {"classifier": LDA, "options": {"steps": 7}},
            ["parameters.options: steps: unknown; accepted by", "shrinkage"],
        ),
        ({"classifier": LDA, "options": {"solver": "x"}}, ["fails on 200 trial outputs", "solver", "'eigen'"]),
        ({"classifier": "sklearn.linear_model:Ridge"}, ["neither predict_proba nor decision_function"]),
        ({"classifier": "math:pi"}, ["a class; given: 'math:pi', a float"]),
        ({"classifier": "math:hypot"}, ["has no fit"]),
    ],
)
def test_what_cannot_learn_is_refused_before_anything_runs(parameters, words):
    with pytest.raises(StudyError) as caught:
        refuse_unusable("learned", parameters, REALS, 1000)
    for word in words:
        assert word in str(caught.value)


ODD = """
import numpy as np

class Odd:
    def fit(self, rows, labels):
        return self

class OneRow(Odd):
    def predict_proba(self, rows):
        return np.array([[0.3, 0.7]])  # NumPy would spread it over all rows without a word

class TwoScores(Odd):
    def decision_function(self, rows):
        return np.zeros((len(rows), 2))

class Exits(Odd):
    def fit(self, rows, labels):
        raise SystemExit(3)

class Moody(Odd):
    def fit(self, rows, labels):
        self.weight = np.random.default_rng().normal()
        return self

    def predict_proba(self, rows):
        chance = 1 / (1 + np.exp(-self.weight * rows[:, 0]))
        return np.column_stack([1 - chance, chance])
"""


@pytest.mark.parametrize(
    "name, refused, failed",
    [
        ("OneRow", r"predict_proba gave shape \(1, 2\) for 200 rows; accepted: \(200, 2\)", r"shape \(1, 2\) for 40"),
        ("TwoScores", r"decision_function gave shape \(200, 2\) for 200 rows", r"shape \(.*, 2\) for"),
        ("Exits", "SystemExit: 3", ": fit raised SystemExit: 3"),
    ],
)
def test_classifiers_that_break_their_interface(name, refused, failed, module):
    module("odd_classifiers", ODD)
    path, calibrate = f"odd_classifiers:{name}", "platt" if name == "TwoScores" else False
    with pytest.raises(StudyError, match=refused):
        refuse_unusable("learned", {"classifier": path, "calibrate": calibrate}, REALS, 1000)
    outputs = np.arange(40.0)
    with pytest.raises(MechanismError, match=failed):
        learned(path, calibrate=calibrate).fit(Side(outputs, 40), Side(outputs, 40)).score(outputs)


def test_a_classifier_that_is_not_deterministic_is_refused(module):
    module("odd_classifiers", ODD)
    with pytest.raises(StudyError, match="learned twice from equal numbers, it gave different scores"):
        refuse_unusable("learned", {"classifier": "odd_classifiers:Moody"}, REALS, 1000)


def test_outputs_that_cannot_be_learned_from():
    with pytest.raises(
        StudyError, match=r"estimate\.loss: 'learned' needs outputs that are numbers; .* frequency, knn"
    ):
        refuse_unusable("learned", {}, Schema("bytes", None), 1000)
    with pytest.raises(StudyError, match=r"estimate\.train: at least 20 with learned; given: 19"):
        refuse_unusable("learned", {}, REALS, 19)
    words = np.array([b"a", b"b"] * 20, object)
    with pytest.raises(StudyError, match="needs outputs that are numbers"):
        learned().fit(Side(words, 40), Side(words, 40))
    with pytest.raises(MechanismError, match="at least 20 training outputs per database; there are 40 and 3"):
        learned().fit(Side(np.arange(40.0), 40), Side(np.arange(3.0), 40))
    for loss, words in (
        (
            learned("sklearn.neighbors:KNeighborsClassifier", options={"n_neighbors": 100}),
            r"its scores raised .*n_neighbors",
        ),
        (learned(options={"learning_rate_init": 1e30}), "the classifier mlp: fit raised "),
        (learned("sklearn.neighbors:KNeighborsClassifier", options={"metric": "precomputed"}), "fit raised ValueError"),
    ):
        with pytest.raises(MechanismError, match=words), np.errstate(all="ignore"):
            loss.fit(*sides(laplace, 40)).score(np.zeros(1))


def test_a_tampered_state_runs_nothing(tmp_path):
    class Tampered:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    assert pack(Tampered(), ["sklearn"]) is None
    state = learned(LDA).fit(*sides(laplace, 100)).state()
    state["pickle"] = np.frombuffer(pickle.dumps(Tampered()), np.uint8)
    with pytest.raises(DamagedError, match="system is not allowed"):
        learned(LDA).restore(state, np.zeros(1))
    assert not (tmp_path / "ran").exists()


@dataclass
class Call:
    """A pickle of it calls this when it is read."""

    function: Any
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.arguments


def archive(folder: Path) -> str:
    """A NumPy archive whose only array runs code when it is unpickled."""
    np.savez(folder / "evil.npz", a=np.array([Call(os.system, (f"touch {folder / 'ran'}",))], object))
    return str(folder / "evil.npz")


ATTACKS: dict[str, Callable[[Path], Any]] = {
    "archive": lambda f: Call(OrderedDict, (Call(NpzFile, (archive(f), False, True)),)),
    "archive in a set": lambda f: Call(frozenset, (Call(NpzFile, (archive(f), False, True)),)),
    "open archive": lambda f: Call(NpzFile, (archive(f),)),
    "overwritten file": lambda f: Call(np.memmap, (str(f / "precious"), "u1", "w+", 0, (1,))),
    "overwritten file, by its module": lambda _: Call(np._core.multiarray._reconstruct, (np.memmap, (0,), b"b")),
    "later call": lambda f: Call(partial, (os.system, f"touch {f / 'ran'}")),
    "joblib": lambda f: Call(joblib.load, (archive(f),)),
    "joblib's files": lambda f: Call(joblib.compressor.BinaryZlibFile, (archive(f),)),
    "source of data": lambda _: Call(np.lib.npyio.DataSource, ()),
    "filled": lambda _: Call(OrderedDict, ([(1, 2)],)),
    "a function of scikit-learn": lambda f: Call(load_svmlight_file, (archive(f),)),
    "a class that scikit-learn imports": lambda _: Call(sklearn.pipeline.Bunch, ()),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_pickle_of_what_no_classifier_needs_is_refused(attack: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    data = pickle.dumps(ATTACKS[attack](tmp_path), protocol=5)
    state = {"pickle": np.frombuffer(data, np.uint8), "versions": pack(np.zeros(1), ["sklearn"])["versions"]}
    with pytest.raises(DamagedError, match=r"is not allowed in a stored classifier|takes 0 positional arguments"):
        unpack(state, ["sklearn"])
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "precious").read_text() == "kept"


CLASSIFIERS = [
    (name, kind)
    for name, kind in all_estimators("classifier")
    if name != "SelfTrainingClassifier"  # it needs another one
    and name != "TunedThresholdClassifierCV"  # it keeps functions: not stored
    and not {"estimator", "estimators"} & {p.name for p in signature(kind).parameters.values() if p.default is p.empty}
]


@pytest.mark.few
@pytest.mark.parametrize("name, kind", CLASSIFIERS, ids=[name for name, _ in CLASSIFIERS])
def test_every_classifier_of_scikit_learn_is_read_back(name: str, kind: Any) -> None:
    rng = np.random.default_rng(0)
    rows, labels = np.abs(rng.normal(size=(60, 2))), np.repeat([0, 1], 30)
    small = {"n_estimators": 3, "max_iter": 20, "random_state": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = kind(**{key: value for key, value in small.items() if key in signature(kind).parameters})
        estimator.fit(rows, labels)
        state = pack(estimator, ["sklearn"])
        assert state is not None
        assert unpack(state, ["sklearn"]).predict(rows).tolist() == estimator.predict(rows).tolist()


OWN = """
import numpy as np
from collections import OrderedDict, defaultdict

class Part:
    pass

class Own:
    def fit(self, rows, labels):
        self.part, self.means = Part(), OrderedDict(zero=rows[labels == 0].mean(), one=rows[labels == 1].mean())
        self.counts, self.rng = defaultdict(set, {1: {2}}), np.random.RandomState(3)
        return self

    def predict_proba(self, rows):
        chance = 1 / (1 + np.exp(self.means["zero"] + self.means["one"] - 2 * rows[:, 0]))
        return np.column_stack([1 - chance, chance])
"""


def test_a_class_of_ones_own_is_read_back(module):
    module("own_classifier", OWN)
    loss = learned("own_classifier:Own")
    model, x = loss.fit(*sides(laplace, 100)), np.linspace(-1, 2, 5)
    restored = loss.restore(model.state(), np.zeros(1)).model
    assert restored.score(x).tolist() == model.score(x).tolist()
    assert restored.classifier.fitted.counts[1] == {2}
    assert restored.classifier.fitted.counts[7] == set()


def test_a_state_of_another_version_is_refused():
    state = learned(LDA).fit(*sides(laplace, 100)).state()
    versions = json.loads(state["versions"].tobytes()) | {"scikit-learn": "0.1"}
    state["versions"] = np.frombuffer(json.dumps(versions).encode(), np.uint8)
    with pytest.raises(DamagedError, match=r"stored classifier needs .*scikit-learn 0\.1.*; here are .*scikit-learn"):
        unpack(state, ["sklearn"])


def test_the_options_of_ready_classifiers_are_documented():
    text = (Path(__file__).parents[3] / "docs" / "study.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1].strip('"'): line for line in text.splitlines() if line.startswith('| `"')}
    for name, model in READY.items():
        inherited = {"steps", "penalty"} if name == "mlp" else set()
        said = dict(re.findall(r"`(\w+)(?: = ([^`]+))?`", rows[name]))
        said.pop("MLPClassifier", None)
        said.pop("HistGradientBoostingClassifier", None)
        assert set(said) == set(model.model_fields) - inherited, name
        defaults = model().model_dump(mode="json")
        for key, value in said.items():
            assert (tomllib.loads(f"x = {value}")["x"] if value else None) == defaults[key], (name, key)
