"""The log-ratio of two sides' votes: the one place where votes become a loss."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel


@kernel(inline="always")
def log_ratio(v0: int, v1: int, n0: int, n1: int) -> float:
    """L̂ = log(v0/n0) - log(v1/n1) of one output; ±inf when one side has no vote, 0 when neither has."""
    if v0 == 0:
        return 0.0 if v1 == 0 else -math.inf
    if v1 == 0:
        return math.inf
    return math.log(v0 / n0) - math.log(v1 / n1)


@kernel(inline="always")
def class_of(loss: float, thresholds: NDArray[np.float64]) -> int:
    """Class 2j of a loss strictly between thresholds j-1 and j, class 2j+1 of a loss equal to threshold j."""
    low, high = 0, thresholds.size
    while low < high:
        middle = (low + high) >> 1
        if thresholds[middle] < loss:
            low = middle + 1
        else:
            high = middle
    if low < thresholds.size and thresholds[low] == loss:
        return 2 * low + 1
    return 2 * low


@kernel()
def _log_ratios(v0, v1, n0, n1, out):  # type: ignore[no-untyped-def]
    """out = log(v0/n0) − log(v1/n1), as `log_ratio` has it."""
    for i in range(v0.size):
        out[i] = log_ratio(v0[i], v1[i], n0, n1)


def log_ratios(v0: NDArray[np.int64], v1: NDArray[np.int64], n0: int, n1: int) -> NDArray[np.float64]:
    """L̂ of many outputs, shape (size,), from votes of both sides (int64, shape (size,)) and draws per database."""
    out = np.empty(v0.size)
    _log_ratios(v0, v1, n0, n1, out)
    return out
