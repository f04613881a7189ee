"""Bounds on P(S) − e^ε Q(S) from draws of other distributions that have known weights.

Draw i of n comes from a proposal of its own stratum and has the weight w = f/g: f is the density of the distribution, g that of
the mixture of all strata by their sizes. For a set S and a cut-off M that were fixed before,

    P(S) >= E_g[w 1_S 1{w <= M}],    Q(S) = E_g[w 1_S 1{w <= M}] + Q(S, w > M).

The means are bounded by fixed bets (`lower_mean`, `upper_mean`), what is beyond the cut-off, the leftover, by plain draws
(`leftover_limit`). All are finite-sample; strata may have different distributions. docs/mathematics-draws.md, "Bounds from
weighted draws", has the proofs. The bets: Waudby-Smith and Ramdas (2024), with rates that do not change. Rates λ and κ are per
unit of weight, and come from training draws (`hpcdp.importance.training`), the sums of logarithms from `hpcdp.importance.sums`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import inflation_factor, open_unit, positive
from hpcdp.notions.bounds import binomial_upper

Floats = NDArray[np.float64]

UNIT = 2.0**-40
"""What one of a sum's whole numbers stands for, in natural logarithms."""

LARGEST_FRACTION = 0.999
"""The largest κ·M. −log(1 − 0.999) is below 7, so that no logarithm of an upper bet needs cutting."""

# 16 units in the last place: for a few operations, with library functions that are off by at most 4.
_DOWN, _UP = 1.0 - 2.0**-48, 1.0 + 2.0**-48
_MEANS_SHARE = 1.0 / 20.0  # of a cell's level, for each of the two means


class Certified(NamedTuple):
    """within: max(0, P's limit − e^ε · Q's limit), which neglects the leftover and is no bound. lower: the bound on δ."""

    within: Floats
    lower: Floats


class Split(NamedTuple):
    """Failure probabilities of a cell's three limits; their sum is at most the cell's."""

    p: Floats
    q: Floats
    leftover: Floats


def spread(weights: Floats, squares: Floats, sizes: ArrayLike) -> Floats:
    """An estimate without bias of the variance of Σ w, (cells,), from Σ w and Σ w² of strata of so many draws each.

    Strata have fixed sizes, so that what their means differ by is no part of it. Of a stratum of one draw, whose variance
    cannot be told, w² is taken, which is more in the mean. weights, squares: (strata, cells). sizes: (strata,), at least 1.
    """
    n = np.asarray(sizes, np.float64)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):  # of weights whose squares are no floats nothing is known
        left = np.nan_to_num(squares - weights * weights / n, nan=np.inf)
        within = np.maximum(0.0, left) * n / np.maximum(1.0, n - 1.0)
    return np.asarray(np.where(n > 1.0, within, squares).sum(axis=0))


def lower_mean(totals: ArrayLike, rates: ArrayLike, draws: int, level: ArrayLike) -> Floats:
    """Lower limit of P(S), from `sum_lower`. Finite-sample: it fails with probability <= level; rounding included.

    m >= (exp((Σ log(1 + λX) − ln(1/level))/n) − 1)/λ, at least 0, at most 1.

    Args:
        totals: sums of logarithms of all draws, whole numbers >= 0 of 2^-40.
        rates: λ. draws: n of all strata, in S or not. level: above 0 and below 1. All broadcast.
    """
    logs, cost = _naturals(totals, level)
    gain = np.maximum(logs - cost - (logs + cost) * 2.0**-48, 0.0) / draws
    # expm1 multiplies a relative error of its argument, at most 8, by at most 9
    with np.errstate(over="ignore"):  # more than 1 is 1
        return np.asarray(np.minimum(np.expm1(np.minimum(gain, 8.0)) / np.asarray(rates) * _DOWN, 1.0))


def upper_mean(totals: ArrayLike, rates: ArrayLike, cutoffs: ArrayLike, draws: int, level: ArrayLike) -> Floats:
    """Upper limit of E_g[w 1_S 1{w <= M}] under Q, from `sum_upper`. Finite-sample: it fails with probability <= level.

    m <= (1 − exp((Σ log(1 − κX) − ln(1/level))/n))/κ, at most M and at most 1. Rounding is included. rates: κ. cutoffs: M.
    Others: as `lower_mean`.
    """
    logs, cost = _naturals(totals, level)
    loss = (logs + cost) * _UP / draws
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(np.minimum(-np.expm1(-loss) / np.asarray(rates) * _UP, cutoffs), 1.0))


def _naturals(totals: ArrayLike, level: ArrayLike) -> tuple[Floats, Floats]:
    """Totals, which may be Python's whole numbers, in natural logarithms, and ln(1/level)."""
    return np.asarray(totals).astype(np.float64) * UNIT, -np.log(open_unit("level", level))


def leftover_limit(hits: ArrayLike, draws: ArrayLike, level: ArrayLike) -> Floats:
    """Upper limit of Q(S, w > M) from plain draws of Q (`count_leftover`). Finite-sample: Clopper and Pearson (1934).

    One limit from the hits in any of several cells' events holds for each of them.
    """
    return binomial_upper(hits, draws, level)


def certify(p_lower: Floats, q_upper: Floats, leftover: Floats, epsilon: ArrayLike) -> Certified:
    """max(0, P's limit − e^ε · Q's limit), and that less e^ε · leftover, a lower bound on δ(ε), 0 at least.

    Finite-sample if the three limits are: it fails with at most the sum of their probabilities. Rounded down. The limits, from
    0 to 1, are those of `lower_mean`, `upper_mean` and `leftover_limit`; e^ε <= 1e100.
    """
    c = _inflation(epsilon) * _UP
    within, lower = (
        np.asarray(np.maximum(p_lower - c * out * _UP - p_lower * 2.0**-51, 0.0))
        for out in (q_upper, q_upper + leftover)
    )
    return Certified(within, lower)


def _inflation(epsilon: ArrayLike) -> Floats:
    with np.errstate(over="ignore"):  # inf is refused
        return inflation_factor(np.exp(np.asarray(epsilon, np.float64)))


def split_level(level: ArrayLike) -> Split:
    """A cell's failure probability, .05 for each mean and .9 for the leftover: ln(1/level) multiplies the leftover's draws.

    docs/mathematics-draws.md, "Bounds from weighted draws", says what other shares would cost. Fixed before any draw.
    """
    whole = open_unit("level", level)
    part = whole * _MEANS_SHARE
    return Split(part, part, whole * ((1.0 - 2.0 * _MEANS_SHARE) * _DOWN))


def leftover_draws(delta_share: float, epsilon: float, level: float) -> int:
    """Plain draws of Q without a hit after which e^ε · `leftover_limit` is at most delta_share.

    ln(1/level)·e^ε/delta_share or so. Rounding makes it at most a part in 10^13, and one draw, larger than the least number.
    """
    aim = positive("delta_share", delta_share) / float(_inflation(epsilon))
    if aim >= 1.0:
        return 1
    return math.ceil(math.log(float(open_unit("level", level))) / math.log1p(-aim) * (1.0 + 2.0**-44))
