"""Bounds on P(S) − e^ε Q(S) from draws of other laws that have known weights.

Draw i of n comes from a proposal of its own stratum and has the weight w = f/g: f is the density of the law, g that of the
mixture of all strata by their sizes. For a set S and a cut-off M that were fixed before,

    P(S) >= E_g[w 1_S 1{w <= M}],    Q(S) = E_g[w 1_S 1{w <= M}] + Q(S, w > M).

The means are bounded by fixed bets (`lower_mean`, `upper_mean`), what is beyond the cut-off, the leftover, by plain draws
(`leftover_limit`). All are finite-sample; strata may have different laws. docs/mathematics-draws.md, "Bounds from weighted
draws", has the proofs. The bets: Waudby-Smith and Ramdas (2024), with rates that do not change. Rates λ and κ are per unit of
weight, and come from training draws (`hpcdp.importance.bets`), the sums of logarithms from `hpcdp.importance.sums`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import binomial_counts, inflation_factor, open_unit, positive, refusal
from hpcdp.notions.bounds import binomial_upper

__all__ = [
    "Certified",
    "Split",
    "certify",
    "leftover_draws",
    "leftover_limit",
    "lower_mean",
    "split_level",
    "upper_mean",
]

Floats = NDArray[np.float64]

UNIT = 2.0**-40
"""What one of a sum's whole numbers stands for, in natural logarithms."""

LARGEST_SHARE = 0.999
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


def lower_mean(totals: ArrayLike, rates: ArrayLike, draws: ArrayLike, level: ArrayLike) -> Floats:
    """Lower limit of P(S), from `sum_lower`. Finite-sample: it fails with probability <= level; rounding included.

    m >= (exp((Σ log(1 + λX) − ln(1/level))/n) − 1)/λ, at least 0, at most 1.

    Args:
        totals: sums of logarithms, whole numbers >= 0 of 2^-40, of all draws (`Totals.logs`).
        rates: λ. draws: n of all strata, in S or not, 1 to 2^53. level: above 0 and below 1. All broadcast.

    Raises:
        ValueError: an argument is out of its range.
    """
    logs, rate, n, cost = _arguments(totals, rates, draws, level)
    gain = np.maximum(logs - cost - (logs + cost) * 2.0**-48, 0.0) / n
    # expm1 multiplies a relative error of its argument, at most 8, by at most 9
    with np.errstate(over="ignore"):  # more than 1 is 1
        return np.asarray(np.minimum(np.expm1(np.minimum(gain, 8.0)) / rate * _DOWN, 1.0))


def upper_mean(totals: ArrayLike, rates: ArrayLike, cutoffs: ArrayLike, draws: ArrayLike, level: ArrayLike) -> Floats:
    """Upper limit of E_g[w 1_S 1{w <= M}] under Q, from `sum_upper`. Finite-sample: it fails with probability <= level.

    m <= (1 − exp((Σ log(1 − κX) − ln(1/level))/n))/κ, at most M and at most 1. Rounding is included.

    Args:
        totals: sums of −log(1 − κX), whole numbers >= 0 of 2^-40, of all draws. rates: κ. cutoffs: M. Others: as `lower_mean`.

    Raises:
        ValueError: an argument is out of its range.
    """
    logs, rate, n, cost = _arguments(totals, rates, draws, level)
    cutoff = np.asarray(cutoffs, np.float64)
    if not (rate * cutoff <= LARGEST_SHARE).all():
        raise refusal("rates * cutoffs", float((rate * cutoff).max()), "at most 0.999")
    loss = (logs + cost) * _UP / n
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(np.minimum(-np.expm1(-loss) / rate * _UP, cutoff), 1.0))


def _arguments(
    totals: ArrayLike, rates: ArrayLike, draws: ArrayLike, level: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    """Totals in natural logarithms, rates, draws, ln(1/level)."""
    logs = np.asarray(totals)
    if logs.size and (logs.dtype.kind not in "iuO" or not (logs >= 0).all()):
        raise refusal("totals", logs.tolist(), "whole numbers >= 0")
    rate = np.asarray(rates, np.float64)
    if not ((rate > 0.0) & (rate < math.inf)).all():
        raise refusal("rates", rate.tolist(), "finite numbers > 0")
    _, n = binomial_counts(np.zeros((), np.int64), draws, ("totals", "draws"))
    return logs.astype(np.float64) * UNIT, rate, n, -np.log(open_unit("level", level))


def leftover_limit(hits: ArrayLike, draws: ArrayLike, level: ArrayLike) -> Floats:
    """Upper limit of Q(S, w > M) from plain draws of Q (`count_leftover`). Finite-sample: Clopper and Pearson (1934).

    One limit from the hits in any of several cells' events holds for each of them.

    Raises:
        ValueError: an argument is out of its range (see `binomial_upper`).
    """
    return binomial_upper(hits, draws, level)


def certify(p_lower: ArrayLike, q_upper: ArrayLike, leftover: ArrayLike, epsilon: ArrayLike) -> Certified:
    """max(0, P's limit − e^ε · Q's limit), and that less e^ε · leftover, a lower bound on δ(ε), 0 at least.

    Finite-sample if the three limits are: it fails with at most the sum of their probabilities. Rounded down.

    Args:
        p_lower, q_upper, leftover: from `lower_mean`, `upper_mean`, `leftover_limit`, from 0 to 1. epsilon: e^ε <= 1e100.

    Raises:
        ValueError: an argument is out of its range.
    """
    limits = [np.asarray(values, np.float64) for values in (p_lower, q_upper, leftover)]
    for name, values in zip(("p_lower", "q_upper", "leftover"), limits, strict=True):
        if not ((values >= 0.0) & (values <= 1.0)).all():
            raise refusal(name, values.tolist(), "numbers from 0 to 1")
    p, q, beyond = limits
    c = _inflation(epsilon) * _UP
    within, lower = (np.asarray(np.maximum(p - c * out * _UP - p * 2.0**-51, 0.0)) for out in (q, q + beyond))
    return Certified(within, lower)


def _inflation(epsilon: ArrayLike) -> Floats:
    with np.errstate(over="ignore"):  # inf is refused
        return inflation_factor(np.exp(np.asarray(epsilon, np.float64)))


def split_level(level: ArrayLike) -> Split:
    """A cell's failure probability, .05 for each mean and .9 for the leftover: ln(1/level) multiplies the leftover's draws.

    docs/mathematics-draws.md, "Bounds from weighted draws", says what other shares would cost. Fixed before any draw.

    Raises:
        ValueError: a level is not above 0 and below 1.
    """
    whole = open_unit("level", level)
    part = whole * _MEANS_SHARE
    return Split(part, part, whole * ((1.0 - 2.0 * _MEANS_SHARE) * _DOWN))


def leftover_draws(delta_share: float, epsilon: float, level: float) -> int:
    """Plain draws of Q without a hit after which e^ε · `leftover_limit` is at most delta_share.

    ln(1/level)·e^ε/delta_share or so. Rounding makes it at most a part in 10^13, and one draw, larger than the least number.

    Raises:
        ValueError: delta_share is not above 0, e^ε above 1e100, or level not above 0 and below 1.
    """
    aim = positive("delta_share", delta_share) / float(_inflation(epsilon))
    if aim >= 1.0:
        return 1
    return math.ceil(math.log(float(open_unit("level", level))) / math.log1p(-aim) * (1.0 + 2.0**-44))
