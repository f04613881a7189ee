"""Compiled kernels, kept between runs as long as neither they nor a kernel that they may call has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import Any, cast

import numba
from numba.core import environment
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

from hpcdp._base import compiling

_numba = cast(Any, environment)
_rebuild_with_globals = _numba._rebuild_env
_loading = RLock()

_youngest = 0.0  # time of change of the files of all kernels so far, among them every one that the next may call


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that numba compiles, without the GIL, and caches; options: others of `numba.njit`.

    numba compares a kernel's own file with its cache and no other; what it calls is compiled into it. So what was cached
    before a file of earlier kernels changed is forgotten.
    """

    def decorated(function: Callable[..., Any]) -> Any:
        found = numba.njit(nogil=True, **options)(function)
        found._cache = cast(Any, _Cache)(function)  # as its enable_caching() does
        _forget_older(found, cast(FunctionType, function))
        return found

    return decorated


class _Cache(FunctionCache):
    """numba's, which loads what was kept without loading what it compiles with: a third of a small run."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # what kernels make arrays with
        with self._guard_against_spurious_io_errors(), _loading:
            _numba._rebuild_env = _rebuild
            try:
                found = cast(Any, self)._load_overload(sig, target_context)
                if found is None:
                    compiling.begins()
                return found
            finally:
                _numba._rebuild_env = _rebuild_with_globals


def _rebuild(module: str, constants: Any, name: str) -> Any:
    """The environment of a function in a kernel: of numba's own without their modules, whose globals Python code alone asks."""
    found = _numba.lookup_environment(name)
    if found is None and module.startswith("numba."):
        found = _numba.Environment({"__name__": module})  # which is kept with what is compiled to call it
        found.consts[:] = constants
        found.env_name = name
        _numba.Environment._memo[name] = found
    return found or _rebuild_with_globals(module, constants, name)


def _forget_older(compiled: Any, function: FunctionType) -> None:
    global _youngest
    path, line = Path(function.__code__.co_filename), function.__code__.co_firstlineno
    changed = path.stat().st_mtime
    if changed <= time.time():  # a file from the future would be younger than every cache
        _youngest = max(_youngest, changed)
    head = f"{path.stem}.{function.__qualname__}-{line}."
    for name, cached in _indices(compiled.stats.cache_path):
        if name.startswith(head) and cached < _youngest:
            with suppress(FileNotFoundError):  # another process was faster
                os.unlink(Path(compiled.stats.cache_path, name))


@lru_cache
def _indices(folder: str) -> list[tuple[str, float]]:
    """Names and times of what numba has kept in a folder, as it was when it was first asked."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        return [(entry.name, entry.stat().st_mtime) for entry in entries if entry.name.endswith(".nbi")]
    return []
