"""Compiled kernels, kept between runs as long as neither they nor a kernel that they may call has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from threading import RLock
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
from numba.core import environment
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.dispatcher import Dispatcher
from numba.core.runtime.nrt import rtsys

from hpcdp._base import compiling
from hpcdp._base.files import own_folder
from hpcdp._base.signals import postponed

_numba = cast(Any, environment)
_rebuild_with_globals = _numba._rebuild_env
_loading = RLock()

_stamps: dict[str, bytes] = {}  # of files of kernels, as their last kernel has it


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that numba compiles, without the GIL, and caches; options: others of `numba.njit`.

    numba compares a kernel's own file with its cache and no other; what it calls is compiled into it. So here all of what
    it is compiled from is compared, and nothing else: neither times of files nor what was installed again.
    """

    def decorated(function: Callable[..., Any]) -> Any:
        asked = {"nogil": True, **options}
        found = numba.njit(**asked)(function)
        found._cache = _cache(function, asked)  # as its enable_caching() does
        return found

    return decorated


def _cache(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Where numba keeps a kernel; else among this user's temporary files; else nowhere."""
    new = cast(Any, _Cache)
    try:
        return new(function, options)
    except RuntimeError:  # neither NUMBA_CACHE_DIR, nor beside its source, nor in the home can files be made
        with suppress(OSError, RuntimeError):
            if own := own_folder(Path(gettempdir())):
                cast(Any, numba.config).CACHE_DIR = str(own / "numba")
                return new(function, options)
    compiling.words, nowhere = compiling.UNKEPT, cast(Any, NullCache())
    nowhere.load_overload = lambda *_: compiling.begins()
    return nowhere


class _Files(IndexDataCacheFile):
    """numba's, but each file is of one source and one type alone.

    numba numbers them, index first: two processes at once, or one that ends between, leave a number with another's file.
    """

    def save(self, key: Any, data: Any) -> None:
        own = cast(Any, self)
        name = own._data_name_pattern.replace(
            "{number:d}", hashlib.sha256(own._source_stamp + repr(key).encode()).hexdigest()[:16]
        )
        own._save_data(name, data)
        own._save_index({**own._load_index(), key: name})


class _Cache(FunctionCache):
    """numba's, which loads what was kept without loading what it compiles with: a third of a small run."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        cast(Any, super()).__init__(function)
        own = cast(Any, self)
        own._cache_file = cast(Any, _Files)(own._cache_path, own._impl.filename_base, _stamp(function, options))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with postponed(), self._guard_against_spurious_io_errors(), _loading:
            rtsys.initialize(target_context)  # what kernels make arrays with
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


def _stamp(function: FunctionType, options: dict[str, Any]) -> bytes:
    """A digest of what a kernel is compiled from: options, its file, those of kernels that it knows, and plain values there."""
    file, names = function.__code__.co_filename, function.__globals__
    found = hashlib.sha256(f"{numba.__version__} {sorted(options.items())}\n".encode() + Path(file).read_bytes())
    for name, value in sorted(names.items()):
        if isinstance(value, Dispatcher) and (other := value.py_func.__code__.co_filename) != file:
            found.update(_stamps.get(other) or Path(other).read_bytes())
        elif not name.startswith("__") and isinstance(value, bool | int | float | str | np.generic):
            found.update(f"{name} = {value!r}\n".encode())
    _stamps[file] = found.digest()
    return _stamps[file]
