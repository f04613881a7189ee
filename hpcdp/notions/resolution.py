"""What δ̂ can tell at all: which cells are resolved, an upper limit for the learned set where not, and what would resolve it.

`learned_upper` and `largest_upper` are **finite-sample** for the sets that were learned; nothing bounds δ itself from above.
`is_resolved`, `extrapolate` and `needed_tests` are **heuristic**.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions.bounds import binomial_lower, binomial_upper

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST = 10  # below about ten counts the normal approximation is off, and so is δ̂ by a third and more
_SHARE = 0.9  # of the level, spent on the side that is not inflated
_AT_ONCE = 1 << 18  # cells that are sorted at once
_LARGEST = 2.0**50  # test samples that can be drawn


def is_resolved(delta: Floats, lower: Floats, exceed: Ints, test: Ints, least_mass: float) -> Bools:
    """Cells whose δ̂ tells something of δ. **Heuristic.**

    δ̂ is above 0 and not below its own bound; and either a bound certifies that δ is above 0, or the set holds at least 10 test
    outputs of the side that is not inflated and a share of them that training could learn from.

    Args:
        delta, lower: shape (…), NaN where unknown: not resolved.
        exceed, test: shape (…, 2), counts in the set and in all, the side that is not inflated first.
        least_mass: the smallest share that training resolves: 1/train, of nearest neighbours k/(2·train).
    """
    counted = exceed[..., 0]
    enough = (counted >= FEWEST) & (counted >= least_mass * test[..., 0])
    return np.asarray((delta > 0.0) & (delta >= lower) & ((lower > 0.0) | enough))


def learned_upper(exceed: Ints, test: Ints, inflation: Floats, confidence: float) -> Floats:
    """Upper limits of a − c·b of the sets that were learned, below 1. Finite-sample, one cell at a time.

    The upper limit of a at 9/10 of the level minus c times the lower one of b at the rest (Clopper and Pearson 1934): where
    such limits are asked for counts are few, and the first one matters. **They say nothing of δ itself**: another set may
    hold more. No limit is below that of no output in n₀, about 3.1/n₀ at 0.95: nothing smaller can be seen.

    Args:
        exceed, test: shape (cells, 2), the side that is not inflated first.
        inflation: c = e^ε >= 1, shape (cells,).
        confidence: above 0 and below 1.
    """
    a, b, least = _sides(exceed, test, confidence)
    return np.asarray(np.maximum(a - inflation * b, least))


def largest_upper(exceed: Ints, test: Ints, inflation: Floats, confidence: float) -> Floats:
    """The largest `learned_upper` of all sets at each inflation, shape (inflations,). Finite-sample, one inflation at a time.

    A limit of the largest a − c·b at the same confidence, without a union bound: it misses only where the limit of the set
    that truly holds the most does. Which sets there are must not depend on the counts.
    """
    some = [
        _distinct(np.column_stack([exceed[start : start + _AT_ONCE], test[start : start + _AT_ONCE]]))
        for start in range(0, len(exceed), _AT_ONCE)
    ]
    counts = _distinct(np.concatenate(some))  # of very many cells of few outputs most have the counts of another
    a, b, least = _sides(counts[:, :2], counts[:, 2:], confidence)
    return np.array([np.maximum(a - c * b, least).max() for c in inflation])


def _distinct(rows: Ints) -> Ints:
    """Every row once."""
    rows = rows[np.lexsort(rows.T)]
    return rows[np.append(True, (rows[1:] != rows[:-1]).any(axis=1))]


def _sides(exceed: Ints, test: Ints, confidence: float) -> tuple[Floats, Floats, Floats]:
    """The upper limit of a, the lower one of b, and the upper one of no output."""
    x0, x1, n0, n1 = exceed[:, 0], exceed[:, 1], test[:, 0], test[:, 1]
    level = 1.0 - confidence
    first, second = _SHARE * level, (1.0 - _SHARE) * level
    return binomial_upper(x0, n0, first), binomial_lower(x1, n1, second), binomial_upper(0, n0, first)


def extrapolate(epsilons: Floats, deltas: Floats, at: float) -> float:
    """δ at a larger ε, if ln δ goes on as it does at the last points. **Heuristic.**

    Through the last three points where ln δ bends down there, else a straight line through the last two; NaN with fewer.
    epsilons: ascending, shape (n,). deltas: above 0.
    """
    if epsilons.size < 2:
        return math.nan
    e, y = epsilons[-3:], np.log(deltas[-3:])
    slopes = np.diff(y) / np.diff(e)
    found = y[-1] + slopes[-1] * (at - e[-1])
    if e.size == 3:
        bend = (slopes[1] - slopes[0]) / (e[2] - e[0])
        found += min(0.0, bend) * (at - e[-1]) * (at - e[-2])
    return float(np.exp(min(found, y[-1])))


def needed_tests(delta: float, share: float, inflation: float) -> int | None:
    """Test samples per database with which a cell of this δ would be resolved; None beyond 2⁵⁰. **Heuristic.**

    That many that 10 outputs are expected in the set, and a standard error of at most half of δ.

    Args:
        delta: a − c·b to be told from 0.
        share: a, the probability of the set on the side that is not inflated, at least delta.
        inflation: c = e^ε.
    """
    if not (delta > 0.0 and share > 0.0):
        return None
    a = max(share, delta)
    variance = a + inflation * (a - delta)  # a + c²·b, as c·b = a − δ; sets this small have next to no complement
    square = delta * delta  # 0 of a δ below 1e-162
    samples = max(FEWEST / a, 4.0 * variance / square) if square > 0.0 else math.inf
    return math.ceil(samples) if samples <= _LARGEST else None
