"""Cross-fitting: each fold is scored by a loss learned on the other folds, so that every output teaches and tests.

The estimate is **asymptotic**, and no bound. The sets of the folds differ, and their counts depend on each other, for each
output that is counted has also taught the other folds' losses.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import inflation_factor, integer, stacked_counts
from hpcdp.notions.bounds import standard_error

Floats = NDArray[np.float64]


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
