"""Cross-fitting: each fold is scored by a loss learned on the other folds, so that every output teaches and tests.

The estimate is **asymptotic**, and no bound. The sets of the folds differ, and their counts depend on each other, for each
output that is counted has also taught the other folds' losses. Bounds, from blocks in order, are **finite-sample**.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import inflation_factor, integer, stacked_counts
from hpcdp.notions.bounds import normal_upper, standard_error
from hpcdp.notions.prequential import prequential_lower
from hpcdp.notions.spectrum import Cells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BlockBounds = Callable[[Ints, Ints, Ints, Ints, Floats, Floats], Floats]
"""Certified lower bounds of cells (see `block_bounds`); a run hands in one that uses its workers."""


def folds(total: int, count: int) -> list[range]:
    """Places of `total` outputs per database cut into `count` folds whose sizes differ by at most 1.

    Raises:
        ValueError: fewer than 2 folds, or fewer outputs than folds.
    """
    integer("count", count, 2)
    integer("total", total, count)
    edges = [total * fold // count for fold in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(edges)]


def crossfit_estimate(
    x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, inflation: ArrayLike
) -> tuple[Floats, Floats]:
    """δ̂ = max(0, Σx0/Σn0 − e^ε·Σx1/Σn1) over the folds, and its standard error. Asymptotic.

    The standard error is that of independent outputs in one set of the pooled rates. For the mean of the folds' own
    P(S) − e^ε·Q(S) this is the central limit theorem for cross-validation (Bayle, Bayle, Janson and Mackey 2020), where
    one output more or less hardly moves the loss; pooling can only add to the variance within the folds. Ignored are the
    regret of the losses, which makes δ̂ low, and the changes of the sets with the training outputs: near the best set they
    change P(S) − e^ε·Q(S) in second order only. Measured in docs/mathematics-accuracy.md: δ̂ spreads 4 % to 39 % more than this.

    Args:
        x0, n0: outputs in the set and outputs of each fold, of the side that is not inflated, shape (folds, ...), 2 or more.
        x1, n1: the same of the inflated side, of a shape that broadcasts with those of x0 and n0.
        inflation: c = e^ε, from 0 to 1e100; its shape broadcasts with that of one fold.

    Returns:
        δ̂ and its standard error, float64 of the common shape of one fold and inflation; the error is 0 where both pooled
        rates are 0 or 1.

    Raises:
        ValueError: an argument is out of its range, or there are fewer than two folds.
    """
    a, m0, b, m1 = (np.sum(v, axis=0) for v in stacked_counts(x0, n0, x1, n1, "folds"))
    c = inflation_factor(inflation)
    return np.maximum(0.0, a / m0 - c * (b / m1)), standard_error(a, m0, b, m1, c)


def block_bounds(x0: Ints, n0: Ints, x1: Ints, n1: Ints, inflation: Floats, level: Floats) -> Floats:
    """`prequential_lower` of cells in rows: counts (cells, blocks), inflation and level (cells,). Finite-sample."""
    return prequential_lower(x0.T, n0.T, x1.T, n1.T, inflation, level)


def make_reused_cells(
    folds: Ints, fold_sizes: Ints, blocks: Ints, block_sizes: Ints, epsilons: Floats, level: Floats, confidence: float,
    run: BlockBounds,
) -> Cells:  # fmt: skip
    """All cells from the counts of folds and of blocks; `exceed` and `test` of the cells are sums over the folds.

    delta, standard_error and upper are **asymptotic**, lower is **finite-sample** and simultaneous over all cells.

    Args:
        folds, blocks: counts in the set, shape (pairs, 2, epsilons, folds or blocks, 2), the side that is not inflated
            first; −1 throughout a cell that does not have all its counts.
        fold_sizes, block_sizes: samples per database, (folds,) and (blocks,).
        epsilons: (epsilons,).
        level: (pairs, 2, epsilons) failure probability of each cell's bound, which may depend on the first block's counts
            and on nothing else. A bound at ε' ≥ ε holds at ε, because δ falls.
        confidence: of the upper limits.
        run: computes the bounds.
    """
    known = np.asarray((folds >= 0).all(axis=(-1, -2)) & (blocks >= 0).all(axis=(-1, -2)))
    inflation = np.broadcast_to(np.exp(epsilons), known.shape)
    exceed = np.where(known[..., None], folds.sum(axis=-2), -1)
    test = np.full(exceed.shape, fold_sizes.sum())
    delta, error, lower, upper = (np.full(known.shape, np.nan) for _ in range(4))
    if known.any():
        c, x, n = inflation[known], exceed[known], test[known]
        crossed, sizes = folds[known], fold_sizes[:, None]
        delta[known], error[known] = crossfit_estimate(crossed[..., 0].T, sizes, crossed[..., 1].T, sizes, c)
        upper[known] = normal_upper(x[:, 0], n[:, 0], x[:, 1], n[:, 1], c, confidence)
        counts = blocks[known]
        tests = np.broadcast_to(block_sizes, counts.shape[:2])
        lower[known] = np.maximum(0.0, run(counts[..., 0], tests, counts[..., 1], tests, c, level[known]))
    best_beyond = np.fmax.accumulate(lower[..., ::-1], axis=-1)[..., ::-1]
    return Cells(delta, error, np.where(known, best_beyond, np.nan), upper, exceed, test)
