"""What the loss `learned` refuses: parameters, classifiers, outputs, and states that somebody has changed."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
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
from learning import LDA, SVC, laplace, learned, sides
from numpy.lib.npyio import NpzFile
from sklearn.datasets import load_svmlight_file
from sklearn.utils import all_estimators

from hpcdp.errors import DamagedError, MechanismError, StudyError
from hpcdp.losses import refuse_unusable, validate_parameters
from hpcdp.losses.learned._pickled import pack, unpack
from hpcdp.losses.learned.options import READY
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.outputs import Schema


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"classifier": "svm"}, ["parameters.classifier", "mlp, gradient-boosting, logistic", "given: 'svm'"]),
        ({"options": {"hidden": 3}}, ["options: hidden is unknown", "hidden_layer_sizes", "accepted by mlp"]),
        ({"classifier": "logistic", "options": {"steps": -1}}, ["steps: greater than or equal to 0"]),
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
        refuse_unusable("learned", parameters, Schema("float", None), 1000)
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

class OneShort(Odd):
    def predict_proba(self, rows):
        return np.full((len(rows) - 1, 2), 0.5)

class TwoScores(Odd):
    def decision_function(self, rows):
        return np.zeros((len(rows), 2))

class Exits(Odd):
    def fit(self, rows, labels):
        raise SystemExit(3)
"""


@pytest.mark.parametrize(
    "name, refused, failed",
    [
        ("OneRow", r"predict_proba gave shape \(1, 2\) for 200 rows; accepted: \(200, 2\)", r"shape \(1, 2\) for 40"),
        ("OneShort", r"predict_proba gave shape \(199, 2\) for 200 rows", r"shape \(39, 2\) for 40"),
        ("TwoScores", r"decision_function gave shape \(200, 2\) for 200 rows", r"shape \(.*, 2\) for"),
        ("Exits", "SystemExit: 3", "failed to learn: SystemExit: 3"),
    ],
)
def test_classifiers_that_break_their_interface(name, refused, failed, tmp_path, monkeypatch):
    (tmp_path / "odd_classifiers.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(tmp_path))
    path, calibrate = f"odd_classifiers:{name}", "platt" if name == "TwoScores" else False
    with pytest.raises(StudyError, match=refused):
        refuse_unusable("learned", {"classifier": path, "calibrate": calibrate}, Schema("float", None), 1000)
    outputs = np.arange(40.0)
    with pytest.raises(MechanismError, match=failed):
        learned(path, calibrate=calibrate).fit(Side(outputs, 40), Side(outputs, 40)).score(outputs)


MOODY = """
import numpy as np

class Moody:
    def fit(self, rows, labels):
        self.weight = np.random.default_rng().normal()
        return self

    def predict_proba(self, rows):
        chance = 1 / (1 + np.exp(-self.weight * rows[:, 0]))
        return np.column_stack([1 - chance, chance])
"""


def test_a_classifier_that_is_not_deterministic_is_refused(tmp_path, monkeypatch):
    (tmp_path / "moody_classifier.py").write_text(MOODY)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(StudyError, match="learned twice from equal numbers, it gave different scores"):
        refuse_unusable("learned", {"classifier": "moody_classifier:Moody"}, Schema("float", None), 1000)


def test_outputs_that_cannot_be_learned_from():
    with pytest.raises(
        StudyError, match=r"estimate\.loss: 'learned' needs outputs that are numbers; .* frequency, knn"
    ):
        refuse_unusable("learned", {}, Schema("bytes", None), 1000)
    with pytest.raises(StudyError, match=r"estimate\.train: at least 20 with learned; given: 19"):
        refuse_unusable("learned", {}, Schema("float", None), 19)
    words = np.array([b"a", b"b"] * 20, object)
    with pytest.raises(StudyError, match="needs outputs that are numbers"):
        learned().fit(Side(words, 40), Side(words, 40))
    with pytest.raises(MechanismError, match="at least 20 training outputs per database; there are 40 and 3"):
        learned().fit(Side(np.arange(40.0), 40), Side(np.arange(3.0), 40))
    neighbours = learned("sklearn.neighbors:KNeighborsClassifier", options={"n_neighbors": 100})
    with pytest.raises(MechanismError, match=r"the classifier failed to score: ValueError: .*n_neighbors"):
        neighbours.fit(Side(np.arange(40.0), 40), Side(np.arange(40.0), 40)).score(np.zeros(1))
    wild = learned(options={"learning_rate_init": 1e30})
    with pytest.raises(MechanismError, match="the classifier mlp failed to learn: "), np.errstate(all="ignore"):
        wild.fit(*sides(laplace, 1000))
    distances = learned("sklearn.neighbors:KNeighborsClassifier", options={"metric": "precomputed"})
    with pytest.raises(MechanismError, match=r"the classifier sklearn\.neighbors:.* failed to learn: ValueError"):
        distances.fit(Side(np.arange(40.0), 40), Side(np.arange(40.0), 40))


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


def test_a_class_of_ones_own_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_classifier.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
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


def test_validation_imports_no_numerical_library():
    code = (
        "import sys; from hpcdp.losses import validate_parameters; validate_parameters('learned', {});"
        "assert not {'sklearn', 'numpy', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
