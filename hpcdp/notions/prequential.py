"""A certified lower bound from outputs that teach and test: each block is scored by the loss learned on those before it.

Given the past, block i has X0 ~ Bin(n0, a) and X1 ~ Bin(n1, b) outputs in its own set {L̂_i > ε}, with a − e^ε·b <= δ(ε)
whatever L̂_i is. All blocks but the last make **bets** against "δ(ε) <= θ": a wealth W(θ) of mean at most 1 if that is true.
The last block, the largest, takes the exact joint **test** at the level α·W(θ). It errs with probability at most α·W(θ)
given the past, hence at most α·E W(θ) <= α in all: finite-sample, for every loss. Both parts are monotone in θ, so that the
bound is where the test stops rejecting. Weighting a p-value by an independent e-value: Ignatiadis, Wang and Ramdas (2024).

A bet multiplies the wealth by exp(s0·X0 − s1·X1)/M(θ) with s0, s1 >= 0 that depend on the past alone, and M(θ) the largest
mean of the numerator over all a <= θ + e^ε·b. So the factor has mean at most 1 if δ(ε) <= θ. log M is concave in b and
grows with θ. s0 and s1 are the log-odds of the expected (a, b) against the nearest pair that meets the claim at the θ that
should just be rejected: at that θ no other bet grows faster if the expected rates are right (see `hpcdp.notions.betting`).

Cross-fitting: each fold is scored by a loss learned on the other folds, so that every output teaches and tests.
The estimate is **asymptotic**, and no bound. The sets of the folds differ, and their counts depend on each other, for each
output that is counted has also taught the other folds' losses. Bounds, from blocks in order, are **finite-sample**.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit, ndtri

from hpcdp._check import inflation_factor, integer, open_unit, refusal, stacked_counts
from hpcdp.notions.bounds import joint_lower, normal_upper, standard_error
from hpcdp.notions.spectrum import Cells

Floats = NDArray[np.float64]

# Wealth that is never staked: whatever the early blocks show, the last one is tested at a tenth of the level or more.
_IDLE = 0.1
# At most so much failure probability is left to the last test, however much the bets have won.
_LARGEST_LEVEL = 0.5
# The search for the bound ends within this share of its margin, or of itself.
_OF_MARGIN, _OF_BOUND = 2e-3, 1e-4
_STEPS = 60  # halvings of a range: float64 has no more
_ROUNDING = 1e-12  # of the terms of a log wealth, which is made smaller by that


@dataclass(frozen=True, eq=False)
class Block:
    """Counts of one block and the tilts s0, s1 of its bet, all float64 of one shape."""

    x0: Floats
    n0: Floats
    x1: Floats
    n1: Floats
    s0: Floats
    s1: Floats


def blocks(total: int, first: int | None = None) -> list[range]:
    """Cut `total` outputs per database into a first block that only teaches and blocks that double what was seen before.

    One that would leave fewer outputs than its own goes on to the end: the last holds half to three quarters. `first` is total/16
    by default, which differs little from total/8 or total/32 (docs/mathematics-accuracy.md).
    """
    integer("total", total, 2)
    stop = max(1, total // 16) if first is None else integer("first", first, 1)
    if stop >= total:
        raise refusal("first", first, f"1 to {total - 1}, below the total")
    ranges = [range(stop)]
    while stop < total:
        start, stop = stop, 2 * stop
        stop = stop if total - stop >= start else total
        ranges.append(range(start, stop))
    return ranges


def prequential_lower(
    x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, inflation: ArrayLike, level: ArrayLike
) -> Floats:
    """Lower bound on δ(ε) from blocks in order. Finite-sample: it fails with probability <= level, whatever the losses.

    Rows of the counts (blocks, ...) are blocks. Row 0 is practice: the first block's outputs, scored by losses that did not see
    them. It only guides the bets, so no count in it can make the bound wrong. In row i >= 1 all outputs are scored by one loss,
    learned on earlier blocks only. Sizes must be fixed before the first output is seen; and it is one look: bounds of the first
    rows, and later of more rows, do not hold together. With two rows it is `joint_lower` of the second. inflation: above 0, to
    1e100.
    """
    counts = stacked_counts(x0, n0, x1, n1, "blocks")
    c, failure = inflation_factor(inflation), open_unit("level", level)
    if not (c > 0.0).all():
        raise refusal("inflation", 0.0, "a number above 0, to 1e100")
    shape = np.broadcast_shapes(counts[0].shape[1:], c.shape, failure.shape)
    rows = [np.broadcast_to(v, (v.shape[0], *shape)).reshape(v.shape[0], -1) for v in _align(counts, len(shape))]
    cells, levels = (np.broadcast_to(v, shape).ravel() for v in (c, failure))
    if not levels.size:
        return np.empty(shape)
    bets = [place_bet(rows, row, cells, levels) for row in range(1, rows[0].shape[0] - 1)]
    return _search([values[-1] for values in rows], bets, cells, levels).reshape(shape)


def place_bet(rows: list[Floats], row: int, c: Floats, level: Floats) -> Block:
    """The bet of a block >= 1 by the counts before it: at the θ that all tests should just reject; rows (blocks, cells)."""
    x0, n0, x1, n1 = rows
    a = (x0[:row].sum(axis=0) + 0.5) / (n0[:row].sum(axis=0) + 1.0)
    b = (x1[:row].sum(axis=0) + 0.5) / (n1[:row].sum(axis=0) + 1.0)
    tests0, tests1 = n0[1:].sum(axis=0), n1[1:].sum(axis=0)
    error = np.sqrt(a * (1.0 - a) / tests0 + c * c * (b * (1.0 - b) / tests1))
    theta = np.maximum(0.0, a - c * b + ndtri(level) * error)
    nearest = _nearest(a, n0[row], b, n1[row], c, theta)
    stakes = nearest > b  # not where the expected rates meet the claim
    a_tilt = np.where(stakes, logit(a) - logit(np.minimum(theta + c * nearest, a)), 0.0)
    b_tilt = np.where(stakes, logit(nearest) - logit(b), 0.0)
    return Block(x0[row], n0[row], x1[row], n1[row], a_tilt, b_tilt)


def log_wealth(bets: list[Block], c: Floats, theta: Floats) -> Floats:
    """Natural log of W(θ), (cells,): a tenth stays idle, the rest is multiplied by each bet's exp(s0·X0 − s1·X1)/M(θ)."""
    total = np.zeros(theta.size)
    for bet in bets:
        won, lost, mean = bet.s0 * bet.x0, bet.s1 * bet.x1, largest_log_mean(bet, c, theta)
        total += won - lost - mean - _ROUNDING * (1.0 + won + lost + np.abs(mean))
    return np.logaddexp(np.log1p(-_IDLE) + total, np.log(_IDLE))


def largest_log_mean(bet: Block, c: Floats, theta: Floats) -> Floats:
    """log M(θ): the largest log E exp(s0·X0 − s1·X1) over 0 <= a <= min(1, θ + c·b), b from 0 to 1.

    It grows with a, and along a = θ + c·b it is a sum of logs of affine functions of b: concave, with one stationary point.
    """
    up, down = np.expm1(bet.s0), -np.expm1(-bet.s1)
    least, most = np.maximum(0.0, -theta / c), np.clip((1.0 - theta) / c, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = (bet.n0 * c * up - bet.n1 * down * (1.0 + theta * up)) / (c * up * down * (bet.n0 + bet.n1))
    b = np.clip(np.where(np.isnan(top), least, top), least, np.maximum(least, most))  # NaN: both tilts are 0
    a = np.clip(theta + c * b, 0.0, 1.0)
    return np.asarray(bet.n0 * np.log1p(a * up) + bet.n1 * np.log1p(-b * down))


def _nearest(a: Floats, n0: Floats, b: Floats, n1: Floats, c: Floats, theta: Floats) -> Floats:
    """b′ of the pair (θ + c·b′, b′) with the least n0·KL(a, θ + c·b′) + n1·KL(b, b′); b where a − c·b <= θ."""
    low, high = b.copy(), np.maximum(b, np.minimum((a - theta) / c, 1.0))
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        rate = theta + c * middle
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = n0 * c * (rate - a) / (rate * (1.0 - rate)) + n1 * (middle - b) / (middle * (1.0 - middle))
        rises = slope > 0.0
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    return low


def _search(last: list[Floats], bets: list[Block], c: Floats, level: Floats) -> Floats:
    """The largest θ that is found rejected: h(θ) >= θ, with h the joint bound of the last block at level α·W(θ).

    h never rises with θ. So the θ looked for is below h of every rejected θ, and h(θ) is itself rejected where θ is not.
    """
    x0, n0, x1, n1 = last
    if not bets:
        return joint_lower(x0, n0, x1, n1, c, level)

    def bound(theta: Floats, at: NDArray[np.intp]) -> Floats:
        chosen = [Block(*(v[at] for v in (bet.x0, bet.n0, bet.x1, bet.n1, bet.s0, bet.s1))) for bet in bets]
        spent = level[at] * np.exp(np.minimum(log_wealth(chosen, c[at], theta), -np.log(level[at])))
        return joint_lower(x0[at], n0[at], x1[at], n1[at], c[at], np.minimum(spent, _LARGEST_LEVEL))

    everywhere = np.arange(c.size)
    low = bound(np.zeros(c.size), everywhere)  # rejected, if it is below 0; else 0 is, and this is a limit
    high = np.maximum(low, 0.0)
    low = np.minimum(low, 0.0)
    estimate = x0 / n0 - c * x1 / n1
    for _ in range(_STEPS):
        at = np.flatnonzero(high - low > np.maximum(_OF_MARGIN * (estimate - low), _OF_BOUND * high))
        at = at[high[at] > 0.0]
        if not at.size:
            break
        theta = 0.5 * (low[at] + high[at])
        limit = bound(theta, at)
        rejected = limit >= theta
        low[at] = np.where(rejected, theta, np.maximum(low[at], limit))
        high[at] = np.where(rejected, np.minimum(high[at], limit), theta)
    return low


def _align(arrays: tuple[Floats, ...], cell_axes: int) -> list[Floats]:
    """(blocks, ...) arrays with as many axes of cells as asked for, new ones in front."""
    return [v.reshape(v.shape[0], *(1,) * (cell_axes + 1 - v.ndim), *v.shape[1:]) for v in arrays]


Ints = NDArray[np.int64]

BlockBounds = Callable[[Ints, Ints, Ints, Ints, Floats, Floats], Floats]
"""Certified lower bounds of cells (see `block_bounds`); a run hands in one that uses its workers."""


def folds(total: int, count: int) -> list[range]:
    """Places of `total` outputs per database cut into `count` folds whose sizes differ by at most 1."""
    integer("count", count, 2)
    integer("total", total, count)
    edges = [total * fold // count for fold in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(edges)]


def crossfit_estimate(
    x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, inflation: ArrayLike
) -> tuple[Floats, Floats]:
    """δ̂ = max(0, Σx0/Σn0 − e^ε·Σx1/Σn1) over the folds (folds, ...), and its standard error. Asymptotic.

    The error is that of independent outputs in one set of the pooled rates: the central limit theorem for cross-validation
    (Bayle, Bayle, Janson and Mackey 2020), where one output more hardly moves the loss; pooling can only add to the variance
    within folds. Ignored are regret, which makes δ̂ low, and how sets change with training, of second order near the best set.
    Measured in docs/mathematics-accuracy.md: δ̂ spreads 4 % to 39 % more than this.
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
    """All cells from counts (pairs, 2, epsilons, folds or blocks, 2), −1 throughout where some are missing; sizes per database.

    delta, standard_error and upper are **asymptotic**, lower is **finite-sample** and simultaneous over all cells: level may
    depend on the first block's counts and on nothing else. A bound at ε' ≥ ε holds at ε, because δ falls.
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
