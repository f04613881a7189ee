"""Bounds on P(S) − e^ε Q(S) from draws of other laws that have known weights.

Draw i of n comes from a proposal of its own stratum and has the weight w = f/g: f is the density of the law, g that of the
mixture of all strata by their sizes. For a set S and a cut-off M that were fixed before,

    P(S) >= E_g[w 1_S 1{w <= M}],    Q(S) = E_g[w 1_S 1{w <= M}] + Q(S, w > M).

The means are bounded by fixed bets (`lower_mean`, `upper_mean`), what is beyond the cut-off, the leftover, by plain draws
(`leftover_limit`). All are finite-sample; strata may have different laws. docs/mathematics.md, "Bounds from weighted draws", has
the proofs. The bets: Waudby-Smith and Ramdas (2024), with rates that do not change. Rates λ and κ are per unit of weight, and
come from training draws (`hpcdp.notions.stakes`). Sums of logarithms are whole numbers of 2^-40.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import binomial_counts, inflation_factor, open_unit, positive, refusal
from hpcdp.notions import _weighted_kernels as kernels
from hpcdp.notions.bounds import binomial_upper

__all__ = [
    "Cells",
    "Certified",
    "Split",
    "Sums",
    "Totals",
    "add_sums",
    "certify",
    "count_leftover",
    "estimate_mean",
    "leftover_draws",
    "leftover_limit",
    "lower_mean",
    "split_level",
    "sum_lower",
    "sum_upper",
    "upper_mean",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGEST_LOG, _LARGEST_CLASS = 700.0, 2**20
# 16 units in the last place: for a few operations, with library functions that are off by at most 4.
_DOWN, _UP = 1.0 - 2.0**-48, 1.0 + 2.0**-48
_MEANS_SHARE = 1.0 / 20.0  # of a cell's level, for each of the two means


@dataclass(frozen=True, eq=False)
class Cells:
    """What is summed of a law's draws, fixed before they are drawn; the set of cell j is {class >= least[j]}.

    Classes are whole numbers >= 0 that grow with L̂ (or with −L̂, for the sets of the other direction). least: int64 (cells,), in
    any order, at most 2^20. rates: λ, or κ, float64 (cells,), > 0. cutoffs: M, float64 (cells,), > 0; an infinite one is for
    lower bounds alone, which hold with any.

    Raises:
        ValueError: shapes differ, or a value is out of its range.
    """

    least: Integers
    rates: Floats
    cutoffs: Floats

    def __post_init__(self) -> None:
        if self.least.ndim != 1 or not self.least.shape == self.rates.shape == self.cutoffs.shape:
            shapes = self.least.shape, self.rates.shape, self.cutoffs.shape
            raise refusal("least, rates, cutoffs", shapes, "shapes (cells,), the same")
        if not ((self.rates > 0.0) & (self.rates < math.inf)).all() or not (self.cutoffs > 0.0).all():
            raise refusal("rates, cutoffs", (self.rates.tolist(), self.cutoffs.tolist()), "numbers > 0, finite rates")
        if not ((self.least >= 0) & (self.least <= _LARGEST_CLASS)).all():
            raise refusal("least", self.least.tolist(), f"whole numbers from 0 to {_LARGEST_CLASS}")


class Sums(NamedTuple):
    """Of one chunk. logs: int64 (cells,), of log(1 + λX) rounded down or of −log(1 − κX) rounded up, in units of 2^-40.

    weights, squares: Σ w and Σ w² of all draws in the set, float64 (cells,), without a cut-off. draws: of the chunk, in a set
    or not.
    """

    logs: Integers
    weights: Floats
    squares: Floats
    draws: int


class Totals(NamedTuple):
    """Of all chunks. logs: Python ints, which do not overflow; the others as in `Sums`."""

    logs: tuple[int, ...]
    weights: Floats
    squares: Floats
    draws: int


class Certified(NamedTuple):
    """within: max(0, P's limit − e^ε · Q's limit), which neglects the leftover and is no bound. lower: the bound on δ."""

    within: Floats
    lower: Floats


class Split(NamedTuple):
    """Failure probabilities of a cell's three limits; their sum is at most the cell's."""

    p: Floats
    q: Floats
    leftover: Floats


def sum_lower(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike, cells: Cells) -> Sums:
    """Sums of a chunk for lower bounds on the means, X = w 1_S 1{w <= M}; a draw counts with the least weight it may have.

    A draw that may be above the cut-off is left out. The sums do not depend on the draws' order, nor, added up, on how
    chunks are cut (`logs`; the others up to rounding).

    Args:
        log_weights: computed log w, float64 (n,), at most 700; −inf is a weight of 0. n <= 2^20, 0 is fine.
        errors: how far each may be from the true one, (n,), >= 0; inf where nothing is known.
        classes: of the outputs, integers (n,), >= 0.

    Raises:
        ValueError: an argument is out of its range.
    """
    return _sum(log_weights, errors, classes, cells, False)


def sum_upper(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike, cells: Cells) -> Sums:
    """Sums of a chunk for upper bounds: a draw that may be at most M counts with the largest weight it may have, at most M.

    Args, and what sums do not depend on: as `sum_lower`.

    Raises:
        ValueError: an argument is out of its range; rate times cut-off of a cell is above 0.999.
    """
    if not (cells.rates * cells.cutoffs <= kernels.LARGEST_SHARE).all():
        raise refusal("rates * cutoffs", float((cells.rates * cells.cutoffs).max()), "at most 0.999 for upper bounds")
    return _sum(log_weights, errors, classes, cells, True)


def _sum(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike, cells: Cells, is_upper: bool) -> Sums:
    order = np.argsort(cells.least, kind="stable")
    draws = _draws(log_weights, errors, classes)
    if draws[2].size > kernels.LARGEST_CHUNK:
        raise refusal("log_weights", draws[2].shape, f"at most {kernels.LARGEST_CHUNK} draws a chunk")
    found = kernels.sum_bets(*draws, _reach(cells.least), cells.rates[order], cells.cutoffs[order], is_upper)
    logs, weights, squares = (values[np.argsort(order)] for values in found)
    return Sums(logs, weights, squares, int(draws[2].size))


def count_leftover(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike, cells: Cells) -> tuple[Integers, int]:
    """How many plain draws of Q are in S with a weight that may be above M: of each cell, int64 (cells,), and in any of these.

    What `sum_upper` leaves out is a hit here, whatever the rounding: each draw in S counts there, here, or in both.

    Args:
        log_weights, errors, classes: of plain draws, as in `sum_lower`, of any number.

    Raises:
        ValueError: an argument is out of its range; a cut-off is infinite.
    """
    if not np.isfinite(cells.cutoffs).all():
        raise refusal("cutoffs", "inf", "finite numbers")
    order = np.argsort(cells.least, kind="stable")
    draws = _draws(log_weights, errors, classes)
    hits, union = kernels.count_hits(*draws, _reach(cells.least), cells.cutoffs[order])
    return hits[np.argsort(order)], int(union)


def _reach(least: Integers) -> Integers:
    """How many cells, by their least class, hold each class from 0 to the largest that tells one from another."""
    return np.cumsum(np.bincount(least, minlength=1))


def _draws(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike) -> tuple[Floats, Floats, NDArray[np.integer]]:
    logs, off = (np.ascontiguousarray(values, np.float64) for values in (log_weights, errors))
    kept = np.ascontiguousarray(classes)
    if logs.ndim != 1 or not logs.shape == off.shape == kept.shape:
        raise refusal("log_weights, errors, classes", (logs.shape, off.shape, kept.shape), "shapes (n,), the same")
    if kept.size and kept.dtype.kind not in "iu":
        raise refusal("classes", kept.dtype.name, "whole numbers")
    if kept.size and kept.min() < 0:
        raise refusal("classes", int(kept.min()), "whole numbers >= 0")
    if not (logs <= _LARGEST_LOG).all():
        raise refusal("log_weights", "one that is not", f"numbers of at most {_LARGEST_LOG:g}")
    if not (off >= 0.0).all():
        raise refusal("errors", "one that is not", "numbers >= 0")
    return logs, off, kept if kept.size else kept.astype(np.int64)


def add_sums(chunks: Iterable[Sums]) -> Totals:
    """The sums of all chunks, one or more, the same in any order: whole numbers are exact, floats rounded once (`math.fsum`).

    Raises:
        ValueError: no chunks, or chunks of unequal numbers of cells.
    """
    found = list(chunks)
    if not found:
        raise refusal("chunks", "none", "one or more")
    logs = tuple(sum(column) for column in zip(*(one.logs.tolist() for one in found), strict=True))
    weights, squares = (
        np.array([math.fsum(column) for column in zip(*columns, strict=True)])
        for columns in ([one.weights for one in found], [one.squares for one in found])
    )
    return Totals(logs, weights, squares, sum(one.draws for one in found))


def estimate_mean(totals: Totals) -> tuple[Floats, Floats]:
    """The estimate of P(S), or of Q(S), and its standard error, (cells,) each; without a cut-off.

    The estimate has no bias. Its error is asymptotic, and taken as if all strata had one mean: of strata that differ it is at
    least what theirs would give.
    """
    mean = totals.weights / totals.draws
    return mean, np.sqrt(np.maximum(totals.squares / totals.draws - mean * mean, 0.0) / totals.draws)


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
    if not (rate * cutoff <= kernels.LARGEST_SHARE).all():
        raise refusal("rates * cutoffs", float((rate * cutoff).max()), "at most 0.999")
    loss = (logs + cost) * _UP / n
    return np.asarray(np.minimum(np.minimum(-np.expm1(-loss) / rate * _UP, cutoff), 1.0))


def _arguments(
    totals: ArrayLike, rates: ArrayLike, draws: ArrayLike, level: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    """Totals in natural logarithms, rates, draws, ln(1/level)."""
    logs = np.asarray(totals)
    if logs.dtype.kind not in "iuO" or not (logs >= 0).all():
        raise refusal("totals", logs.tolist(), "whole numbers >= 0")
    rate = np.asarray(rates, np.float64)
    if not ((rate > 0.0) & (rate < math.inf)).all():
        raise refusal("rates", rate.tolist(), "finite numbers > 0")
    _, n = binomial_counts(np.zeros((), np.int64), draws, ("totals", "draws"))
    return logs.astype(np.float64) * kernels.UNIT, rate, n, -np.log(open_unit("level", level))


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
    return Certified(within, np.where(lower > 0.0, lower, 0.0))


def _inflation(epsilon: ArrayLike) -> Floats:
    with np.errstate(over="ignore"):  # inf is refused
        return inflation_factor(np.exp(np.asarray(epsilon, np.float64)))


def split_level(level: ArrayLike) -> Split:
    """A cell's failure probability, .05 for each mean and .9 for the leftover: ln(1/level) multiplies the leftover's draws.

    docs/mathematics.md, "Bounds from weighted draws", says what other shares would cost. Fixed before any draw.

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
