"""One thread for numerical libraries: how BLAS splits a sum changes its last bits, and tasks must give the same bits."""

from __future__ import annotations

from hpcdp._base.shared import while_inside
from hpcdp._base.threads import limit_libraries

one_thread = while_inside(lambda: limit_libraries(1), lambda limits: limits.restore_original_limits())
"""BLAS and OpenMP use one thread inside."""
