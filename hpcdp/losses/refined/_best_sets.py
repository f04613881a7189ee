"""The empirically best sets of ordered cells: those in which a tally gains most, of a few simple shapes.

For each threshold t of L the best set maximises P(S) − e^t Q(S), so the set that maximises it over tallies is the minimum
of the empirical risk (Lu et al. 2024, Theorem 4) over its family. The families are half-lines, two half-lines and
intervals; few parameters, so that many draws tell even small gains, such as those beside a plateau of L.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def best_sets(p: Floats, q: Floats, thresholds: Floats) -> Bools:
    """For each threshold the set of cells with the largest sum of p − e^t·q; shape (T, cells).

    p, q: shares of the draws of D and of D' in each cell, (cells,), in the cells' order. A half-line, two of them, or an
    interval, whichever gains most; an empty set where nothing gains. Heuristic: it says where to look, and bounds nothing.
    """
    return np.array([_best(p - np.exp(t) * q) for t in thresholds]).reshape(thresholds.size, p.size)


def _best(gain: Floats) -> Bools:
    found = np.zeros(gain.size, np.bool_)
    upto = np.concatenate([[0.0], np.cumsum(gain)])
    left, right = _two_ends(upto)
    first, last = _middle(upto)
    ends = upto[left] + upto[-1] - upto[right]
    if upto[last] - upto[first] > ends:
        found[first:last] = True
    else:
        found[:left] = True
        found[right:] = True
    return found


def _two_ends(upto: Floats) -> tuple[int, int]:
    """Cells before the first number and from the second on: two half-lines, of which either may be empty.

    Their complement is the interval with the least sum.
    """
    first, last = _middle(-upto)
    return (first, last) if last > first else (int(upto.size - 1), int(upto.size - 1))


def _middle(upto: Floats) -> tuple[int, int]:
    """The interval of cells with the largest sum, from cumulated sums that start with 0 (Kadane)."""
    lowest = np.minimum.accumulate(upto)
    last = int((upto - lowest).argmax())
    first = int(upto[: last + 1].argmin())
    return first, last
