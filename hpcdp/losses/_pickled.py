"""Fitted estimators as bytes. Reading a pickle can run code, so what its bytes may name is limited.

Allowed are classes that numpy, scipy, scikit-learn and the classifier's own package define, and the few functions that
rebuild arrays, generators and compiled classes. This keeps out what a tampered store would use first (os, subprocess,
eval), but is no proof: the classes that are allowed have constructors of their own. Resume no store whose writers you do
not trust.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._raised import INTERRUPTIONS
from hpcdp.errors import DamagedError

_PACKAGES = frozenset({"numpy", "scipy", "sklearn"})
_REBUILDERS = frozenset(
    {
        ("builtins", "bytearray"),
        ("builtins", "complex"),
        ("builtins", "frozenset"),
        ("builtins", "object"),
        ("builtins", "range"),
        ("builtins", "set"),
        ("builtins", "slice"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("copyreg", "_reconstructor"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.random._pickle", "__bit_generator_ctor"),
        ("numpy.random._pickle", "__generator_ctor"),
        ("numpy.random._pickle", "__randomstate_ctor"),
    }
)
_COMPILED = "__pyx_unpickle_"  # how Cython rebuilds its classes


class _Limited(pickle.Unpickler):
    def __init__(self, data: bytes, packages: frozenset[str]) -> None:
        super().__init__(io.BytesIO(data))
        self._packages = packages

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _REBUILDERS:
            return super().find_class(module, name)
        if _top(module) in self._packages:
            found = super().find_class(module, name)
            if isinstance(found, type) and _top(found.__module__) in self._packages:
                return found
            if name.startswith(_COMPILED) and "." not in name:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a stored classifier")


def _top(module: str) -> str:
    return module.partition(".")[0]


def pack(estimator: Any, packages: Iterable[str]) -> dict[str, NDArray[np.uint8]] | None:
    """A fitted estimator as arrays of bytes; None where it cannot be pickled or read back within the limits."""
    allowed = _PACKAGES | set(packages)
    try:
        data = pickle.dumps(estimator, protocol=5)
        _Limited(data, allowed).load()
    except INTERRUPTIONS:
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
    except INTERRUPTIONS:
        raise
    except BaseException as error:
        raise DamagedError(f"the stored classifier cannot be read: {type(error).__name__}: {error}") from error


def _versions(packages: Iterable[str]) -> dict[str, str]:
    names = packages_distributions()
    found = {}
    for package in sorted(packages):
        for name in names.get(package, [])[:1]:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
    return found


def _words(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _bytes(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value, sort_keys=True).encode(), np.uint8)
