"""Which of several candidates decides at each threshold of L̂, by tallies they did not see; and one L̂ of the chosen sets.

Some candidates are the empirically best sets of ordered cells. For each threshold t of L the best set maximises P(S) − e^t Q(S),
so the set that maximises it over tallies is the minimum of the empirical risk (Lu et al. 2024, Theorem 4) over its family:
half-lines, two half-lines and intervals. These have few parameters, so that many draws tell even small gains, such as those
beside a plateau of L.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_RESOLVED = 2.0  # standard errors by which a candidate must be better than the default


@dataclass(frozen=True, eq=False)
class CellTally:
    """How many of n0 draws of D and of n1 of D' lie in each cell: p, q (cells,) int64."""

    p: Ints
    q: Ints
    n0: int
    n1: int

    def __add__(self, other: CellTally) -> CellTally:
        return CellTally(self.p + other.p, self.q + other.q, self.n0 + other.n0, self.n1 + other.n1)


@dataclass(frozen=True, eq=False)
class Fold:
    """Candidates that were learned elsewhere, and the tally that judges them.

    candidates: sets {L̂ > t} of each threshold, (T, cells), by name; the first one is the default.
    """

    candidates: Mapping[str, Bools]
    tally: CellTally


def choose(folds: Sequence[Fold], thresholds: Floats) -> list[str]:
    """The name of the candidate that decides at each threshold.

    Another than the default is taken where the paired difference of both sets' P(S) − e^t Q(S), over the tallies of all folds,
    is above two of its standard errors; the largest such. Heuristic: a choice among sets that fresh test outputs certify,
    whichever is chosen.
    """
    default, *others = folds[0].candidates
    chosen = [default] * thresholds.size
    for row, t in enumerate(thresholds):
        best = 0.0
        for name in others:
            gain, error = _difference(folds, name, default, row, float(np.exp(t)))
            if gain > max(best, _RESOLVED * error):
                best, chosen[row] = gain, name
    return chosen


def resolved_better(folds: Sequence[Fold], one: str, other: str, thresholds: Floats) -> int:
    """At how many thresholds one candidate is resolved to be better than the other, less those at which it is worse.

    Resolved: as in `choose`.
    """
    balance = 0
    for row, t in enumerate(thresholds):
        gain, error = _difference(folds, one, other, row, float(np.exp(t)))
        balance += int(np.sign(gain)) * (abs(gain) > _RESOLVED * error)
    return balance


def _difference(folds: Sequence[Fold], one: str, other: str, row: int, inflation: float) -> tuple[float, float]:
    """By how much P(S) − e^t Q(S) is larger in one candidate's sets than in the other's, and the standard error of that."""
    p, q = np.zeros(2), np.zeros(2)  # outputs that only the one has, and only the other
    for fold in folds:
        first, second = fold.candidates[one][row], fold.candidates[other][row]
        for at, where in enumerate((first & ~second, second & ~first)):
            p[at] += fold.tally.p[where].sum()
            q[at] += fold.tally.q[where].sum()
    n0, n1 = sum(fold.tally.n0 for fold in folds), sum(fold.tally.n1 for fold in folds)
    # one count more than there is: none at all is no knowledge
    spread = (p.sum() + 1.0) / n0**2 + inflation**2 * (q.sum() + 1.0) / n1**2
    return float((p[0] - p[1]) / n0 - inflation * (q[0] - q[1]) / n1), float(np.sqrt(spread))


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


def best_sets(p: Floats, q: Floats, thresholds: Floats) -> Bools:
    """For each threshold the set of cells with the largest sum of p − e^t·q; shape (T, cells).

    p, q: shares of the draws of D and of D' in each cell, (cells,), in the cells' order. A half-line, two of them, or an
    interval, whichever gains most; an empty set where nothing gains. Heuristic: it says where to look, and bounds nothing.
    """
    return np.array([_best(p - np.exp(t) * q) for t in thresholds]).reshape(thresholds.size, p.size)


def _best(gain: Floats) -> Bools:
    best = np.zeros(gain.size, np.bool_)
    upto = np.concatenate([[0.0], np.cumsum(gain)])
    left, right = _two_ends(upto)
    first, last = _middle(upto)
    ends = upto[left] + upto[-1] - upto[right]
    if upto[last] - upto[first] > ends:
        best[first:last] = True
    else:
        best[:left] = True
        best[right:] = True
    return best


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
