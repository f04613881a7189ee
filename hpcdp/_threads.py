"""Threads of numerical libraries: workers are told how many by their environment, and trial draws have as many."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Of the environment, read by libraries when they are loaded, and by programs that are started."""


@contextmanager
def worker_threads(threads: int) -> Iterator[None]:
    """Draw within as workers do: libraries that are loaded use so many threads, and so do programs that start here."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, str(threads)))
    numba = sys.modules.get("numba")
    masked = numba.get_num_threads() if numba is not None else 0
    if numba is not None:
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    try:
        with threadpool_limits(threads):
            yield
    finally:
        if numba is not None:
            numba.set_num_threads(masked)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
