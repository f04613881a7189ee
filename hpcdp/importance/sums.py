"""Sums over weighted draws, chunk by chunk, that the bounds of `hpcdp.importance.bounds` need: exact whole numbers of 2^-40.

Whole numbers add up exactly, in any order and however chunks are cut. A computed log w is given with the most that it may be
off, so that every draw has an interval that holds its true weight. What is done with the weight then takes the end that keeps
the bound, and its logarithm is rounded to the side on which the bound holds. Where w may be on either side of the cut-off M, the
lower mean leaves the draw out, the upper mean counts it with at most M, and the leftover counts it too. So does a weight of
exactly M: a cut-off at an atom of the weights should be a little above it, by a part in 10^9 or so. Logarithms and exponentials
are made of additions, products and divisions alone, which IEEE 754 rounds the same way everywhere: so are the sums.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.importance.bounds import LARGEST_FRACTION, UNIT
from hpcdp.mechanisms._stream_kernels import _as_float, _minus_log

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_jit: Any = kernel(error_model="numpy")

LARGEST_CHUNK = 2**20
"""Draws whose sum cannot overflow: a logarithm is below 8, 2^43 units."""

_LARGEST_GAIN = 2979.9  # log(1 + 2979.9) is just below 8; a lower bet may be cut there, which keeps its bound
_BLOCK = 512  # of numbers below 2^43: their float64 sum is a whole number below 2^52, hence exact

# A weight's logarithm is below 1024, so log ± error is off by at most 2^-44, and `_exp` by at most 2^-51 of its value.
_WEIGHT_DOWN, _WEIGHT_UP = 1.0 - 2.0**-43, 1.0 + 2.0**-43
_LEAST_LOG, _LARGEST_LOG = -700.0, 700.0
# `_log1p` is off by at most 2^-50 of its value; the product in front of it by 2^-53.
_LOG_DOWN, _LOG_UP, _STAKE_UP = 1.0 - 2.0**-49, 1.0 + 2.0**-49, 1.0 + 2.0**-50

# exp: the polynomial of FreeBSD's msun (Sun Microsystems, 1993), whose error is below one unit in the last place
_P1, _P2, _P3 = 1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05
_P4, _P5 = -1.65339022054652515390e-06, 4.13813679705723846039e-08
_LN2_HIGH, _LN2_LOW, _PER_LN2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.44269504088896338700


@_jit
def _exp(x):  # type: ignore[no-untyped-def]
    """e^x for −700 <= x <= 700."""
    k = np.floor(x * _PER_LN2 + 0.5)
    high, low = x - k * _LN2_HIGH, k * _LN2_LOW
    r = high - low
    t = r * r
    c = r - t * (_P1 + t * (_P2 + t * (_P3 + t * (_P4 + t * _P5))))
    power = _as_float(np.uint64(np.int64(k) + 1023) << np.uint64(52))
    return (1.0 - ((low - r * c / (2.0 - c)) - high)) * power


@_jit
def _log1p(x):  # type: ignore[no-untyped-def]
    """log(1 + x) for −0.9991 < x < 2^52: the log of the rounded sum, and what rounding it left out, which is exact."""
    u = 1.0 + x
    return (x - (u - 1.0)) / u - _minus_log(u)


@_jit
def weight_range(log_weight, error):  # type: ignore[no-untyped-def]
    """The least and the largest weight whose logarithm is within error of log_weight; 0 and inf where nothing is known."""
    if log_weight == -np.inf and error < np.inf:
        return 0.0, 0.0
    low, high = log_weight - error, log_weight + error
    least = _exp(min(low, _LARGEST_LOG)) * _WEIGHT_DOWN if low > _LEAST_LOG else 0.0
    largest = _exp(max(high, _LEAST_LOG)) * _WEIGHT_UP if high < _LARGEST_LOG else np.inf
    return least, largest


@_jit
def sum_bets(log_weights, errors, classes, reach, rates, cutoffs, is_upper):  # type: ignore[no-untyped-def]
    """Sums of log(1 + λw), rounded down, or of −log(1 − κw), rounded up, of at most `LARGEST_CHUNK` draws by cell, in units.

    A lower bet takes the least weight there may be, 0 where it may be above the cut-off; an upper one the largest up to it, 0
    where it is certainly above.
    """
    cells, last = rates.size, reach.size - 1
    logs, block = np.zeros(cells, np.int64), np.zeros(cells)
    for start in range(0, classes.size, _BLOCK):
        block[:] = 0.0
        for i in range(start, min(start + _BLOCK, classes.size)):
            inside = reach[min(np.int64(classes[i]), last)]
            if inside == 0:
                continue
            least, largest = weight_range(log_weights[i], errors[i])
            for j in range(inside):
                if is_upper and least <= cutoffs[j]:
                    value = -_log1p(-(rates[j] * min(largest, cutoffs[j]) * _STAKE_UP)) * _LOG_UP
                    block[j] += np.ceil(value * (1.0 / UNIT))
                elif largest <= cutoffs[j] and not is_upper:
                    value = _log1p(min(rates[j] * least, _LARGEST_GAIN)) * _LOG_DOWN
                    block[j] += np.floor(value * (1.0 / UNIT))
        for j in range(cells):
            logs[j] += np.int64(block[j])
    return logs


@_jit
def count_hits(log_weights, errors, classes, reach, cutoffs):  # type: ignore[no-untyped-def]
    """How many draws lie in each cell's set with a weight that may be above its cut-off, and how many in any of these events."""
    hits, union, last = np.zeros(cutoffs.size, np.int64), np.int64(0), reach.size - 1
    for i in range(classes.size):
        inside = reach[min(np.int64(classes[i]), last)]
        if inside == 0:
            continue
        _, largest = weight_range(log_weights[i], errors[i])
        any_hit = np.int64(0)
        for j in range(inside):
            hit = np.int64(largest > cutoffs[j])
            hits[j] += hit
            any_hit |= hit
        union += any_hit
    return hits, union


class Cells(NamedTuple):
    """What is summed, fixed before draws: the set of cell j is {class >= least[j]}, ascending; rates are λ or κ, cut-offs M."""

    least: Integers
    rates: Floats
    cutoffs: Floats

    def reach(self) -> Integers:
        """How many cells hold each class from 0 to the largest that tells one from another."""
        return np.cumsum(np.bincount(self.least, minlength=1))


def _sum(log_weights: Floats, errors: Floats, classes: NDArray[np.integer], cells: Cells, is_upper: bool) -> Integers:
    assert classes.size <= LARGEST_CHUNK
    assert not is_upper or (cells.rates * cells.cutoffs <= LARGEST_FRACTION).all()
    sums: Integers = sum_bets(log_weights, errors, classes, cells.reach(), cells.rates, cells.cutoffs, is_upper)
    return sums


sum_lower = partial(_sum, is_upper=False)
"""Sums of log(1 + λX), X = w 1_S 1{w <= M}, rounded down, (cells,); log_weights (n,) are off by at most errors; n <= 2^20."""
sum_upper = partial(_sum, is_upper=True)
"""Sums of −log(1 − κX), rounded up: a draw that may be at most M counts with its largest weight, at most M; κ·M <= 0.999."""


def count_leftover(
    log_weights: Floats, errors: Floats, classes: NDArray[np.integer], cells: Cells
) -> tuple[Integers, int]:
    """Plain draws of Q in S that may weigh more than M, by cell and in any; all that `sum_upper` leaves out is counted."""
    hits, union = count_hits(log_weights, errors, classes, cells.reach(), cells.cutoffs)
    return hits, int(union)
