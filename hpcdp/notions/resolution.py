"""What δ̂ can tell at all: which cells are resolved, and an upper limit for the learned set where not.

`ascend` is **finite-sample** where its tests are; `largest_upper` is for the sets that were learned.
Nothing bounds δ itself from above.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions.bounds import binomial_lower, binomial_upper

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Entries = tuple[NDArray[np.intp], NDArray[np.intp], int]
"""Places of cells with one ε: pairs, directions, and the place of ε."""

_SHARE = 0.9  # of the level, spent on the side that is not inflated
_AT_ONCE = 1 << 18  # cells that are sorted at once


def ascend(epsilons: Floats, known: Bools, rejects: Callable[[Entries], Bools]) -> Bools:
    """Cells that tests of δ(ε) <= 0 reject in ascending ε, of each pair and direction up to its first that does not.

    A fixed sequence: the first cell in the order whose δ is 0 must be rejected before any other false one is, so that each pair
    and direction errs with probability at most the level of one test. **Finite-sample** where the tests are.

    Args:
        epsilons: shape (epsilons,), in any order.
        known: shape (pairs, 2, epsilons); what is unknown is passed over, and is not rejected.
        rejects: of places of cells with one ε, which tests reject.
    """
    rejected, going = np.zeros(known.shape, np.bool_), np.ones(known.shape[:2], np.bool_)
    for column in np.argsort(epsilons).tolist():
        place = (*np.nonzero(going & known[..., column]), column)
        rejected[place] = rejects(place)
        going &= rejected[..., column] | ~known[..., column]
    return rejected


def largest_upper(exceed: Ints, test: Ints, inflation: Floats, confidence: float) -> Floats:
    """The largest upper limit of a − c·b of the sets that were learned, at each inflation, shape (inflations,).

    Of each set the upper limit of a at 9/10 of the level minus c times the lower one of b at the rest (Clopper and Pearson 1934):
    where such limits are asked for counts are few, and the first one matters. **They say nothing of δ itself**: another set may
    hold more. No limit is below that of no output in n₀, about 3.1/n₀ at 0.95: nothing smaller can be seen.

    Finite-sample, one inflation at a time: a limit of the largest a − c·b at the same confidence, without a union bound. It
    misses only where the limit of the set that truly holds the most does. Which sets there are must not depend on the counts.

    Args:
        exceed, test: shape (cells, 2), the side that is not inflated first.
        inflation: c = e^ε >= 1, shape (inflations,).
        confidence: above 0 and below 1.
    """
    parts = [
        _distinct(np.column_stack([exceed[start : start + _AT_ONCE], test[start : start + _AT_ONCE]]))
        for start in range(0, len(exceed), _AT_ONCE)
    ]
    counts = _distinct(np.concatenate(parts))  # of very many cells of few outputs most have the counts of another
    x0, x1, n0, n1 = counts.T
    level = 1.0 - confidence
    first, second = _SHARE * level, (1.0 - _SHARE) * level
    a, b, least = binomial_upper(x0, n0, first), binomial_lower(x1, n1, second), binomial_upper(0, n0, first)
    return np.array([np.maximum(a - c * b, least).max() for c in inflation])


def _distinct(rows: Ints) -> Ints:
    """Every row once."""
    rows = rows[np.lexsort(rows.T)]
    return rows[np.append(True, (rows[1:] != rows[:-1]).any(axis=1))]
