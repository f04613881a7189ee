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
    """An unbiased estimate of the variance of Σ w, (cells,), by strata of fixed sizes; of a stratum of one draw w² is taken."""
    n = np.asarray(sizes, np.float64)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):  # of weights whose squares are no floats nothing is known
        left = np.nan_to_num(squares - weights * weights / n, nan=np.inf)
        within = np.maximum(0.0, left) * n / np.maximum(1.0, n - 1.0)
    return np.asarray(np.where(n > 1.0, within, squares).sum(axis=0))


def lower_mean(totals: ArrayLike, rates: ArrayLike, draws: int, level: ArrayLike) -> Floats:
    """Lower limit of P(S): (exp((Σ log(1 + λX) − ln(1/level))/n) − 1)/λ. Finite-sample, rounding included; totals in 2^-40."""
    logs, cost = _naturals(totals, level)
    gain = np.maximum(logs - cost - (logs + cost) * 2.0**-48, 0.0) / draws
    # expm1 multiplies a relative error of its argument, at most 8, by at most 9
    with np.errstate(over="ignore"):  # more than 1 is 1
        return np.asarray(np.minimum(np.expm1(np.minimum(gain, 8.0)) / np.asarray(rates) * _DOWN, 1.0))


def upper_mean(totals: ArrayLike, rates: ArrayLike, cutoffs: ArrayLike, draws: int, level: ArrayLike) -> Floats:
    """Upper limit of Q's mean up to M: (1 − exp((Σ log(1 − κX) − ln(1/level))/n))/κ. Finite-sample, rounding included."""
    logs, cost = _naturals(totals, level)
    loss = (logs + cost) * _UP / draws
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(np.minimum(-np.expm1(-loss) / np.asarray(rates) * _UP, cutoffs), 1.0))


def _naturals(totals: ArrayLike, level: ArrayLike) -> tuple[Floats, Floats]:
    """Totals, which may be Python's whole numbers, in natural logarithms, and ln(1/level)."""
    return np.asarray(totals).astype(np.float64) * UNIT, -np.log(open_unit("level", level))


def leftover_limit(hits: ArrayLike, draws: ArrayLike, level: ArrayLike) -> Floats:
    """Upper limit of Q(S, w > M) from plain draws, for each cell whose hits count. Finite-sample (Clopper and Pearson 1934)."""
    return binomial_upper(hits, draws, level)


def certify(p_lower: Floats, q_upper: Floats, leftover: Floats, epsilon: ArrayLike) -> Certified:
    """max(0, P's limit − e^ε · Q's limit), and that less e^ε · leftover, rounded down. Finite-sample if the limits are."""
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
    """A cell's failure probability, .05 for each mean and .9 for the leftover, whose draws ln(1/level) multiplies."""
    whole = open_unit("level", level)
    part = whole * _MEANS_SHARE
    return Split(part, part, whole * ((1.0 - 2.0 * _MEANS_SHARE) * _DOWN))


def leftover_draws(delta_share: float, epsilon: float, level: float) -> int:
    """Plain draws of Q without a hit after which e^ε · `leftover_limit` is at most delta_share."""
    aim = positive("delta_share", delta_share) / float(_inflation(epsilon))
    if aim >= 1.0:
        return 1
    return math.ceil(math.log(float(open_unit("level", level))) / math.log1p(-aim) * (1.0 + 2.0**-44))
