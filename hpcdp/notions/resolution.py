"""What δ̂ can tell at all: which cells are resolved, and an upper limit for the learned set where not.

`ascend` is **finite-sample** where its tests are; `largest_upper` is for the sets that were learned.
Nothing bounds δ itself from above.

`share_level`: how the failure probability is shared by the cells whose lower bounds hold together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions.bounds import binomial_lower, binomial_upper

_APART = 3.0
"""Standard errors of one from which on another is told from it: about two of their difference."""


def share_level(
    training_delta: NDArray[np.float64] | None,
    cells: tuple[int, int, int],
    failure: float,
    certified: NDArray[np.bool_] | None = None,
    error: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Failure probability of each cell's bound, shape (pairs, 2, epsilons); the sum is at most `failure`.

    Half is shared equally by all cells, half by the pair and direction that training ranks first at each ε: training samples
    alone decide, so the union bound over all cells is finite-sample. training_delta: NaN: unknown; None: all equal. certified:
    (epsilons,), whose cells share it, others have 0. error: of training_delta; the leader on the whole is first up to chance.
    """
    if certified is not None:
        shares = np.zeros(cells)
        ranked = None if training_delta is None else training_delta[..., certified]
        errors = None if error is None else error[..., certified]
        shares[..., certified] = share_level(ranked, (*cells[:2], int(certified.sum())), failure, error=errors)
        return shares
    pairs, directions, epsilons = cells
    equal = np.full(cells, failure / (pairs * directions * epsilons))
    if training_delta is None:
        return equal
    shares = 0.5 * equal
    flat = np.where(np.isnan(training_delta), -np.inf, training_delta).reshape(pairs * directions, epsilons)
    first = flat.argmax(axis=0)  # ties: the lowest pair, forward first
    if error is not None:
        first = _settled(flat, error.reshape(flat.shape), first)
    shares.reshape(pairs * directions, epsilons)[first, np.arange(epsilons)] += 0.5 * failure / epsilons
    return shares


def _settled(ranked: NDArray[np.float64], error: NDArray[np.float64], first: NDArray[np.intp]) -> NDArray[np.intp]:
    """Which leads at each ε, (groups, epsilons): the one that leads on the whole, unless another is _APART errors above it."""
    top = ranked[first, np.arange(first.size)]
    telling = top > 0.0
    if not telling.any():
        return first
    whole = int(np.clip(ranked[:, telling] / top[telling], 0.0, 1.0).sum(axis=1).argmax())
    return np.where(ranked[whole] + _APART * error[whole] >= top, whole, first)


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
    and direction errs with probability at most the level of one test. **Finite-sample** where the tests are. What is not known is
    passed over.
    """
    rejected, going = np.zeros(known.shape, np.bool_), np.ones(known.shape[:2], np.bool_)
    for column in np.argsort(epsilons).tolist():
        place = (*np.nonzero(going & known[..., column]), column)
        rejected[place] = rejects(place)
        going &= rejected[..., column] | ~known[..., column]
    return rejected


def largest_upper(exceed: Ints, test: Ints, inflation: Floats, confidence: float) -> Floats:
    """The largest upper limit of a − c·b of the sets that were learned, cells (cells, 2), at each inflation, shape (inflations,).

    The upper limit of a at 9/10 of the level minus c times the lower one of b at the rest (Clopper and Pearson 1934), and none
    below that of no output in n₀. **They say nothing of δ itself**: another set may hold more. Finite-sample, one inflation at a
    time, without a union bound: it misses only where the limit of the set that truly holds the most does. Sets must not depend on
    counts.
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
