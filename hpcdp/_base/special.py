"""Ufuncs of `scipy.special`, without what that package makes of them for other array libraries: a tenth of a small run.

Their compiled module is loaded as the package itself loads it, under a package of the same name that is there meanwhile; the
package takes what it finds loaded when somebody asks for it. Where that fails, it is asked at once.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import scipy

_PACKAGE = "scipy.special"


def _ufuncs() -> list[Any]:
    if _PACKAGE not in sys.modules:
        try:
            return _named(_compiled())
        except (ImportError, AttributeError):  # of a later SciPy, which keeps them elsewhere
            pass
    return _named(importlib.import_module(_PACKAGE))


def _compiled() -> ModuleType:
    package = ModuleType(_PACKAGE)
    package.__spec__ = ModuleSpec(_PACKAGE, None, is_package=True)
    package.__path__ = [f"{folder}/special" for folder in scipy.__path__]
    sys.modules[_PACKAGE] = package
    try:
        return importlib.import_module(f"{_PACKAGE}._ufuncs")
    finally:
        del sys.modules[_PACKAGE]


def _named(found: ModuleType) -> list[Any]:
    names = ("erfcx", "expit", "gammaln", "log_expit", "log_ndtr", "logit", "ndtr", "ndtri", "xlogy")
    return [getattr(found, name) for name in names]


erfcx, expit, gammaln, log_expit, log_ndtr, logit, ndtr, ndtri, xlogy = _ufuncs()
