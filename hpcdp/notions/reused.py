"""Cells of samples that teach and test: the estimate from folds (asymptotic), the bound from blocks in order (finite-sample)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions.bounds import normal_upper
from hpcdp.notions.crossfit import crossfit_estimate
from hpcdp.notions.prequential import prequential_lower
from hpcdp.notions.spectrum import Cells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BlockBounds = Callable[[Ints, Ints, Ints, Ints, Floats, Floats], Floats]
"""Certified lower bounds of cells (see `block_bounds`); a run hands in one that uses its workers."""


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
