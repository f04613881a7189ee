"""Estimators with the interface of scikit-learn: made, checked on a few numbers, fitted, and turned into log-odds.

They are stored as bytes. Reading a pickle can run code, so what its bytes may name is limited.

Allowed are by name the few functions and classes that rebuild arrays, random generators, trees and the like, the estimators
of scikit-learn, and the classes of a classifier's own package, which the study names: that is the user's code. No package is
trusted whole: numpy has classes that read pickles or overwrite files when they are made. It is no proof still, so nothing
that another user could have written is read (see `hpcdp.study.named_code`).
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import pickle
import sys
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.raised import describe_raised, interruptions
from hpcdp._base.threads import library_threads
from hpcdp.errors import DamagedError
from hpcdp.losses._alone import has_equal_scores

_PACKAGES = frozenset({"numpy", "scipy", "sklearn"})
_OWN_RULES = _PACKAGES | {"joblib", "threadpoolctl"} | sys.stdlib_module_names  # never a classifier's own package
_BY_NAME: Mapping[str, frozenset[str]] = {
    module: frozenset(names.split())
    for module, names in {
        "builtins": "bytearray complex frozenset range set slice",
        "numpy": "dtype ndarray",
        "numpy._core.multiarray": "_reconstruct scalar",
        "numpy._core.numeric": "_frombuffer",
        "numpy.random._mt19937": "MT19937",
        "numpy.random._pcg64": "PCG64 PCG64DXSM",
        "numpy.random._philox": "Philox",
        "numpy.random._pickle": "__bit_generator_ctor __generator_ctor __randomstate_ctor",
        "numpy.random._sfc64": "SFC64",
        "numpy.random.bit_generator": "SeedSequence __pyx_unpickle_SeedSequence",
        "scipy.sparse._csc": "csc_array csc_matrix",
        "scipy.sparse._csr": "csr_array csr_matrix",
        "sklearn.calibration": "_CalibratedClassifier",
        "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
        "sklearn.metrics._dist_metrics": "newObj",
        "sklearn.neighbors._ball_tree": "newObj",
        "sklearn.neighbors._kd_tree": "newObj",
        "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
        "sklearn.tree._tree": "Tree",
    }.items()
}
_NUMERICAL = frozenset(  # modules of scikit-learn that define nothing but losses, distances, trees and kernels
    {
        "sklearn._loss._loss",
        "sklearn._loss.link",
        "sklearn._loss.loss",
        "sklearn.gaussian_process.kernels",
        "sklearn.linear_model._sgd_fast",
        "sklearn.metrics._dist_metrics",
        "sklearn.neighbors._ball_tree",
        "sklearn.neighbors._kd_tree",
    }
)
_COMPILED = "__pyx_unpickle_"  # how Cython rebuilds its classes


def _ordered() -> OrderedDict[Any, Any]:
    """What a pickle calls for an OrderedDict; its items follow. It takes none: an iterable may do anything when it is read."""
    return OrderedDict()


def _default(factory: Callable[[], Any] | None = None) -> defaultdict[Any, Any]:
    return defaultdict(factory)


class _Limited(pickle.Unpickler):
    def __init__(self, data: bytes, packages: frozenset[str]) -> None:
        super().__init__(io.BytesIO(data))
        self._own = packages - _OWN_RULES

    def find_class(self, module: str, name: str) -> Any:
        from sklearn.base import BaseEstimator

        if module == "collections" and name in ("OrderedDict", "defaultdict"):
            return _ordered if name == "OrderedDict" else _default
        if name in _BY_NAME.get(module, ()):
            return super().find_class(module, name)
        if "." not in name and (module in _NUMERICAL or _may_define_estimators(module)):
            member = super().find_class(module, name)
            if (
                isinstance(member, type)
                and member.__module__ == module
                and (module in _NUMERICAL or issubclass(member, BaseEstimator))
            ):
                return member
        if _top(module) in self._own:
            member = super().find_class(module, name)
            if isinstance(member, type) and _top(member.__module__) in self._own:
                return member
            if name.startswith(_COMPILED) and "." not in name:
                return member
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a stored classifier")


def _may_define_estimators(module: str) -> bool:
    """Whether a module is scikit-learn's, and no test or tool of it."""
    parts = module.split(".")
    return parts[0] == "sklearn" and not {"conftest", "datasets", "externals", "tests", "utils"} & set(parts)


def _top(module: str) -> str:
    return module.partition(".")[0]


def pack(estimator: Any, packages: Iterable[str]) -> dict[str, NDArray[np.uint8]] | None:
    """A fitted estimator as arrays of bytes; None where it cannot be pickled or read back within the limits."""
    allowed = _PACKAGES | set(packages)
    try:
        data = pickle.dumps(estimator, protocol=5)
        _Limited(data, allowed).load()
    except interruptions():
        raise
    except BaseException:  # whatever a class of someone else raises
        return None
    versions = json.dumps(_versions(allowed), sort_keys=True).encode()
    return {"pickle": np.frombuffer(data, np.uint8), "versions": np.frombuffer(versions, np.uint8)}


def unpack(state: Any, packages: Iterable[str]) -> Any:
    """The estimator that `pack` stored; DamagedError where other packages wrote it, or it names what is not allowed."""
    allowed = _PACKAGES | set(packages)
    then, now = json.loads(state["versions"].tobytes()), _versions(allowed)
    if then != now:
        raise DamagedError(f"the stored classifier needs {_words(then)}; here are {_words(now)}")
    try:
        return _Limited(state["pickle"].tobytes(), allowed).load()
    except interruptions():
        raise
    except BaseException as error:
        raise DamagedError(f"the stored classifier cannot be read: {type(error).__name__}: {error}") from error


@lru_cache(maxsize=1)
def _packages() -> Mapping[str, list[str]]:
    """Distributions of each package that is installed; to list their files takes a second."""
    return packages_distributions()


def _versions(packages: Iterable[str]) -> dict[str, str]:
    names = _packages()
    versions = {}
    for package in sorted(packages):
        for name in names.get(package, [])[:1]:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                continue
    return versions


def _words(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


Floats = NDArray[np.float64]

BOOSTING = "sklearn.ensemble:HistGradientBoostingClassifier"
_TRIAL = 200  # rows


@dataclass(frozen=True, eq=False)
class Estimator:
    """A fitted classifier; is_log_odds: whether its decision_function is log-odds, so that no probability is rounded."""

    fitted: Any
    path: str
    is_log_odds: bool

    @property
    def has_odds(self) -> bool:
        """Whether its scores are log-odds; what has only a decision_function needs calibration."""
        return self.is_log_odds or hasattr(self.fitted, "predict_proba")

    def logits(self, rows: Floats) -> Floats:
        """Log-odds of D' (or the decision value) of rows (size, d), shape (size,); ±inf at probabilities 0 and 1."""
        size = rows.shape[0]
        if self.is_log_odds or not hasattr(self.fitted, "predict_proba"):
            values = np.asarray(self.fitted.decision_function(rows), np.float64)
            if values.shape not in ((size,), (size, 1)):
                raise ValueError(f"decision_function gave shape {values.shape} for {size} rows; accepted: ({size},)")
            return values.reshape(-1)
        chances = np.asarray(self.fitted.predict_proba(rows), np.float64)
        if chances.shape != (size, 2):
            raise ValueError(f"predict_proba gave shape {chances.shape} for {size} rows; accepted: ({size}, 2)")
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(chances[:, 1]) - np.log(chances[:, 0])

    def state(self) -> dict[str, NDArray[Any]] | None:
        """The pickled estimator; None where it cannot be stored."""
        return self._packed

    @cached_property
    def _packed(self) -> dict[str, NDArray[Any]] | None:
        return pack(self.fitted, _package_of(self.path))

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], path: str, is_log_odds: bool) -> Estimator:
        """The estimator that `state` came from."""
        return cls(unpack(state, _package_of(path)), path, is_log_odds)


def _package_of(path: str) -> set[str]:
    return {path.partition(":")[0].partition(".")[0]}


def make_estimator(path: str, options: Mapping[str, Any], seed: int) -> Any:
    """What the callable at "package.module:Class" makes of the options; every random_state left open is the seed."""
    module, _, name = path.partition(":")
    try:
        target: Any = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except interruptions():
        raise
    except BaseException as error:
        raise ValueError(f"parameters.classifier: cannot import {path!r}: {describe_raised(error)}") from error
    if not callable(target):
        raise ValueError(f"parameters.classifier: a class; given: {path!r}, a {type(target).__name__}")
    _check_keywords(path, target, options)
    try:
        estimator = target(**options)
    except interruptions():
        raise
    except BaseException as error:
        raise ValueError(f"parameters.options: {path}: {describe_raised(error)}") from error
    if hasattr(estimator, "get_params"):
        own = estimator.get_params()
        open_states = {k: seed for k, v in own.items() if v is None and k.rpartition("__")[2] == "random_state"}
        if open_states:
            estimator.set_params(**open_states)
    return estimator


def _check_keywords(path: str, target: Any, options: Mapping[str, Any]) -> None:
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):  # some compiled classes have no signature
        return
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    unknown = sorted(set(options) - set(parameters))
    if unknown:
        accepted = ", ".join(parameters) or "none"
        raise ValueError(f"parameters.options: {', '.join(unknown)}: unknown; accepted by {path}: {accepted}")


def try_estimator(path: str, options: Mapping[str, Any], seed: int, calibrated: bool) -> None:
    """Fit the estimator to a few numbers in two columns, twice."""
    estimator = make_estimator(path, options, seed)
    if not hasattr(estimator, "fit"):
        raise ValueError(
            f"parameters.classifier: {path!r} has no fit; accepted: a class like scikit-learn's classifiers"
        )
    rng = np.random.default_rng(seed)
    is_other = np.arange(_TRIAL) % 2 == 1
    rows, fresh = (rng.normal(size=(_TRIAL, 2)) + is_other[:, None] for _ in range(2))
    try:
        with warnings.catch_warnings(), library_threads(1):
            warnings.simplefilter("ignore")
            trained = Estimator(estimator.fit(rows, is_other.astype(np.int64)), path, False)
            if not trained.has_odds and not hasattr(trained.fitted, "decision_function"):
                raise ValueError("it has neither predict_proba nor decision_function")
            scores = trained.logits(fresh)
            again = make_estimator(path, options, seed).fit(rows, is_other.astype(np.int64))
            # Tasks that learn for themselves must agree, or the two sides would be counted by different sets.
            if not np.array_equal(Estimator(again, path, False).logits(fresh), scores, equal_nan=True):
                raise ValueError("learned twice from equal numbers, it gave different scores; it must be deterministic")
            # Not on the rows it learned from, which it may have kept and score by themselves.
            if not has_equal_scores(trained.logits, fresh):
                raise ValueError(
                    "it scores an output differently in another batch (reversed, in halves, singly); a score must depend on "
                    "the output and on what was learned alone"
                )
    except interruptions():
        raise
    except BaseException as error:  # a class that exits would take hpcdp along without a word
        raise ValueError(
            f"parameters.classifier: {path} with these options fails on {_TRIAL} trial outputs: "
            f"{describe_raised(error)}"
        ) from error
    if not trained.has_odds and not calibrated:
        raise ValueError(
            f"parameters.calibrate: {path} with these options has a decision_function but no predict_proba, and such a "
            'score is no log-odds; accepted: "platt", "isotonic"'
        )
