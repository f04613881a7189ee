"""Fitted estimators as bytes. Reading a pickle can run code, so what its bytes may name is limited.

Allowed are by name the few functions and classes that rebuild arrays, random generators, trees and the like, the estimators
of scikit-learn, and the classes of a classifier's own package, which the study names: that is the user's code. No package is
trusted whole: numpy has classes that read pickles or overwrite files when they are made. It is no proof still, so nothing
that another user could have written is read (see `hpcdp.study.named_code`).
"""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.raised import interruptions
from hpcdp.errors import DamagedError

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
        if module == "collections" and name in ("OrderedDict", "defaultdict"):
            return _ordered if name == "OrderedDict" else _default
        if name in _BY_NAME.get(module, ()):
            return super().find_class(module, name)
        if "." not in name and (module in _NUMERICAL or _may_define_estimators(module)):
            member = super().find_class(module, name)
            if (
                isinstance(member, type)
                and member.__module__ == module
                and (module in _NUMERICAL or _is_estimator(member))
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


def _is_estimator(kind: type) -> bool:
    from sklearn.base import BaseEstimator

    return issubclass(kind, BaseEstimator)


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
    return {"pickle": np.frombuffer(data, np.uint8), "versions": _bytes(_versions(allowed))}


def unpack(state: Any, packages: Iterable[str]) -> Any:
    """The estimator that `pack` stored.

    Raises:
        DamagedError: other versions of the packages wrote it, or it names what is not allowed.
    """
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


def _bytes(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value, sort_keys=True).encode(), np.uint8)
