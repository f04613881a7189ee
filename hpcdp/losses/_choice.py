"""Which of several candidates decides at each threshold of L̂, by validation tallies; and one L̂ made of the chosen sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_RESOLVED = 2.0  # standard errors by which a candidate must be better than the default


@dataclass(frozen=True, eq=False)
class Tally:
    """How many of n0 draws of D and of n1 of D' lie in each cell: p, q (cells,) int64."""

    p: Ints
    q: Ints
    n0: int
    n1: int


def choose(candidates: Mapping[str, Bools], thresholds: Floats, validation: Tally) -> list[str]:
    """The name of the candidate that decides at each threshold; the first one is the default.

    candidates: sets {L̂ > t} of each threshold, (T, cells), by name. Another than the default is taken where the paired
    difference of both sets' P(S) − e^t Q(S) on the validation tallies is above two of its standard errors; the largest
    such. Heuristic: a choice among sets that fresh test outputs certify, whichever is chosen.
    """
    names = list(candidates)
    chosen = [names[0]] * thresholds.size
    for row, t in enumerate(thresholds):
        best = 0.0
        for name in names[1:]:
            gain, error = _difference(candidates[name][row], candidates[names[0]][row], float(np.exp(t)), validation)
            if gain > max(best, _RESOLVED * error):
                best, chosen[row] = gain, name
    return chosen


def _difference(one: Bools, other: Bools, inflation: float, tally: Tally) -> tuple[float, float]:
    """By how much P(S) − e^t Q(S) is larger in one set than in the other, and the standard error of that."""
    more, less = one & ~other, other & ~one
    p = np.array([tally.p[more].sum(), tally.p[less].sum()], np.float64) / tally.n0
    q = np.array([tally.q[more].sum(), tally.q[less].sum()], np.float64) / tally.n1
    # one count more than there is: none at all is no knowledge
    spread = (p.sum() + 1.0 / tally.n0) / tally.n0 + inflation**2 * (q.sum() + 1.0 / tally.n1) / tally.n1
    return float(p[0] - p[1] - inflation * (q[0] - q[1])), float(np.sqrt(spread))


def join_sets(sets: Bools, thresholds: Floats) -> Ints:
    """The class of each cell, (cells,) int64 from 0 to 2T, of one L̂ with about these sets {L̂ > t}, (T, cells).

    Sets of one L̂ are nested. Where those of different candidates are not, those of t >= 0 become the union of all at higher
    thresholds, and the complements of those of t < 0 the union of all at lower ones; the former win where both hold.
    """
    above = sets.copy()
    negative = thresholds < 0.0
    above[negative] = np.logical_and.accumulate(above[negative], axis=0)
    above = np.logical_or.accumulate(above[::-1], axis=0)[::-1]
    return np.asarray(2 * above.sum(axis=0), np.int64)
