"""Pairs of laws and grids that the tests of trade-off curves share."""

import numpy as np
import pytest
from analytic_curves import COUNT_P, COUNT_Q

SIZES = np.unique(np.concatenate((np.linspace(0.0, 1.0, 2001), np.geomspace(1e-9, 1.0, 301))))
LEVELS = np.concatenate((np.linspace(0.0, 4.0, 81), [7.0, 30.0, 900.0, np.inf]))
DIRECTIONS = ("forward", "reverse")

P, Q = np.array([0.5, 0.3, 0.15, 0.05, 0.0]), np.array([0.2, 0.25, 0.3, 0.15, 0.1])
PAIRS = {
    "counts": (COUNT_P, COUNT_Q),
    "lopsided": (P, Q),
    "both supports differ": ([0.2, 0.5, 0.3, 0.0, 0.0], [0.1, 0.0, 0.3, 0.55, 0.05]),
    "disjoint": ([1.0, 0.0], [0.0, 1.0]),
    "equal": ([0.25, 0.75], [0.25, 0.75]),
}
every_pair = pytest.mark.parametrize("p, q", PAIRS.values(), ids=PAIRS)
