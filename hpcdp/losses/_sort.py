"""Ascending float64, in which −0.0 is 0.0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ascending(values: NDArray[np.float64], is_own: bool = False) -> NDArray[np.float64]:
    """Sorted copy of finite float64 values, shape (size,). is_own: whether the array, which is contiguous, may become it."""
    out = values if is_own else values.copy()
    out.sort()
    out += 0.0  # −0.0 as 0.0
    return out
