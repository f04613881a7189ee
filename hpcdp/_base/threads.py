"""Threads of numerical libraries: workers are told how many by their environment, and trial draws have as many."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from hpcdp._base.files import while_wanted

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Of the environment, read by libraries when they are loaded, and by programs that are started."""

_HASHING = "6640"  # Dask's own
# Once its threads run, numba refuses to compile when its variable changes: it is masked, and only programs are told.
_READ_LATE = tuple(name for name in VARIABLES if name != "NUMBA_NUM_THREADS")

_for_programs: dict[str, str] = {}


def worker_environment() -> dict[str, str]:
    """What this process's environment lacks to be a worker's here; sets have one order, so that equal draws are equal."""
    lacks = {name: "1" for name in VARIABLES if name not in os.environ}
    if os.environ.get("PYTHONHASHSEED") in (None, "0"):
        lacks["PYTHONHASHSEED"] = _HASHING
    return lacks


def program_environment() -> dict[str, str]:
    """The environment of a program that starts now: this process's, with the threads that hold within worker_threads."""
    return os.environ | _for_programs


@lru_cache(maxsize=1)
def _controller(_modules: int) -> Any:
    """Of the libraries that are loaded: to look for them takes milliseconds, and only a new module can have brought more."""
    return ThreadpoolController()


_limits: list[tuple[Any, int, Any]] = []  # that hold now: of which libraries, how many threads, and what puts them back


def _limit(threads: int) -> None:
    controller = _controller(len(sys.modules))
    if not _limits or _limits[-1][:2] != (controller, threads):
        _limits.append((controller, threads, controller.limit(limits=threads)))


def _unlimit(_: object) -> None:
    while _limits:
        _limits.pop()[2].restore_original_limits()


library_threads = while_wanted(lambda: None, _limit, _unlimit)
"""BLAS and OpenMP use so many threads inside: how BLAS splits a sum changes its last bits, and tasks must give the same bits."""


def _tell(threads: int) -> None:
    os.environ.update(dict.fromkeys(_READ_LATE, str(threads)))
    _for_programs.update(dict.fromkeys(VARIABLES, str(threads)))


def _untell(variables: dict[str, str | None]) -> None:
    _for_programs.clear()
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


_told = while_wanted(lambda: {name: os.environ.get(name) for name in _READ_LATE}, _tell, _untell)


@contextmanager
def worker_threads(threads: int) -> Iterator[None]:
    """Within, libraries and programs that start use so many threads; the last thread that leaves puts all back."""
    import numba  # before the mechanism may load it, and have it keep this number for ever

    masked = numba.get_num_threads()  # of this thread; it starts numba's, and loads OpenMP, which is limited too
    with library_threads(threads), _told(threads):
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
        try:
            yield
        finally:
            numba.set_num_threads(masked)
