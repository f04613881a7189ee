"""One thread for numerical libraries: how BLAS splits a sum changes its last bits, and tasks must give the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_lock = Lock()
_inside = 0
_limits: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and OpenMP use one thread inside; the limit is the process's, so the last thread that leaves lifts it."""
    global _inside, _limits
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with _lock:
        if _inside == 0:
            _limits = threadpool_limits(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limits.restore_original_limits()
