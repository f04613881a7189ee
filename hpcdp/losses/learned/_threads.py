"""One thread for numerical libraries: how BLAS splits a sum changes its last bits, and tasks must give the same bits."""

from __future__ import annotations

from typing import Any

from hpcdp._base.shared import while_inside


def _limit() -> Any:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1)


one_thread = while_inside(_limit, lambda limits: limits.restore_original_limits())
"""BLAS and OpenMP use one thread inside."""
