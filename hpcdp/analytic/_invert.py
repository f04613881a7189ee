"""Inversion of monotone functions by bisection, on arrays."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_HALVINGS = 200  # enough for full precision of every solution above 2^-147


def invert_non_increasing(function: Callable[[Array], Array], target: Array) -> Array:
    """Return the smallest x >= 0 with function(x) <= target, elementwise, to the last bit.

    Args:
        function: non-increasing on [0, infinity], maps arrays of target's shape to that shape.
        target: float64, any shape.

    Returns:
        float64 of the shape of `target`: 0 where function(0) <= target, infinity where function stays
        above the target.
    """
    reachable = function(np.full(target.shape, np.inf)) <= target
    upper = np.ones(target.shape)
    short = reachable & (function(upper) > target)
    while short.any():
        upper = np.where(short, 2.0 * upper, upper)
        short = reachable & (function(upper) > target)
    lower = np.zeros(target.shape)
    for _ in range(_HALVINGS):
        middle = 0.5 * (lower + upper)
        if ((middle == lower) | (middle == upper)).all():
            break
        above = function(middle) > target
        lower, upper = np.where(above, middle, lower), np.where(above, upper, middle)
    solution = np.where(function(np.zeros(target.shape)) <= target, 0.0, upper)
    return np.where(reachable, solution, np.inf)
