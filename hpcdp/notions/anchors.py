"""Anchors: few cells of a pair and direction that have its level, and what their sets bound at all ε.

What training promises is normal and **heuristic**: it decides where bounds are computed and at which levels, never what they are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.notions.bounds import BERGER_BOOS_SHARE, binomial_lower, binomial_upper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_jit: Any = kernel(error_model="numpy")

_SIZES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
_MOST = 64  # cells of a direction that are looked at; of more, so many that lie evenly
_ROUNDS = 4  # of sharing the level among the cells that were chosen
_SPENT = 0.95  # of a level by the test, and by one side of the range of b (see `hpcdp.notions.bounds`)
_RANGE = 0.025
_FEWEST = 0.01  # training outputs to a test output: fewer promise nothing to go by, and the level stays as it is
_LEAST = 1e-6  # of the level: a cell that should get less gets none


def anchor_level(
    level: Floats,
    training_share: Floats,
    test: Ints,
    epsilons: Floats,
    train: Ints,
) -> Floats:
    """The level of each pair and direction on few of its cells, its anchors, whose bounds say most of all its cells.

    Which, and how much each has, makes the mean square of the certified share of δ as large as training promises: **heuristic**,
    and by training samples alone, so that every bound stays **finite-sample**. Arrays (pairs, 2, epsilons); shares (…, 2), side
    that is not inflated first, NaN: unknown. Levels stay where shares are unknown, or of too few outputs.
    """
    shares = np.clip(training_share, 0.0, 1.0)
    unseen = (shares == 0.0).all(axis=-1)  # no training output: what so many may have missed
    shares[..., 0] = np.where(unseen, 1.0 / train[..., 0], shares[..., 0])
    groups, cells = level.shape[0] * level.shape[1], level.shape[2]
    placed = _place_levels(
        np.ascontiguousarray(level).reshape(groups, cells),
        np.ascontiguousarray(shares).reshape(groups, cells, 2),
        np.ascontiguousarray(test, np.float64).reshape(groups, cells, 2),
        np.exp(epsilons),
        np.broadcast_to(train, (*level.shape[:2], 1, 2)).astype(np.float64).reshape(groups, 2),
    )
    return np.asarray(placed).reshape(level.shape)


def warm() -> None:
    """Load the kernel, or compile it."""
    ones = np.ones((1, 2, 1))
    anchor_level(
        0.1 * ones, 0.1 * np.ones((1, 2, 1, 2)), np.full((1, 2, 1, 2), 9), np.zeros(1), np.full((1, 2, 1, 2), 9)
    )


def slopes(
    x: Ints, test: Ints, inflation: Floats, level: Floats, split: NDArray[np.bool_], lower: Floats
) -> tuple[Floats, Floats]:
    """Limits on b = Q(S) that bounds of cells (k,) pay for already, from below and above. **Finite-sample**.

    The joint bound l on a − c·b pays for b in its two-sided interval (Berger and Boos 1994), and a <= 1 makes b at most (1 −
    l)/c. The region of the split bound is a corner: a's lower limit with b's upper limit, which is given twice.
    """
    least, most = np.zeros(lower.size), np.zeros(lower.size)
    held = lower > 0.0
    if held.any():
        x1, n1, apart = x[held, 1], test[held, 1], split[held]
        side = np.where(apart, 0.5, 0.5 * BERGER_BOOS_SHARE) * level[held]
        most[held] = np.minimum(binomial_upper(x1, n1, side), (1.0 - lower[held]) / inflation[held])
        least[held] = np.where(apart, most[held], binomial_lower(x1, n1, side))
    return least, most


def extended(own: Floats, least: Floats, most: Floats, inflation: Floats) -> Floats:
    """What bounds and `slopes` of cells (…, epsilons) say of every cell of their pair and direction; 0 where nothing.

    P(S) − c'·Q(S) is at least l − (c' − c)·b, with the limit on b that makes it least, and δ at c' is at least that.
    """
    bounds = own.copy()
    for at in np.flatnonzero((own > 0.0).reshape(-1, own.shape[-1]).any(axis=0)):
        far = inflation - inflation[at]
        change = far * np.where(far > 0.0, most[..., at, None], least[..., at, None])
        rounding = np.where(far == 0.0, 0.0, 4e-16 * (1.0 + np.abs(change)))
        np.maximum(bounds, own[..., at, None] - change - rounding, out=bounds)
    return bounds


@_jit
def _quantile(level: float) -> float:
    """z with 1 − Φ(z) near `level`, to 0.003 (Abramowitz and Stegun, 26.2.22)."""
    t = math.sqrt(-2.0 * math.log(min(level, 0.5)))
    return t - (2.30753 + 0.27061 * t) / (1.0 + 0.99229 * t + 0.04481 * t * t)


@_jit
def _promise(
    value: Floats,
    error: Floats,
    slope_error: Floats,
    inflation: Floats,
    best: Floats,
    anchor: int,
    level: float,
    out: Floats,
) -> None:
    """Share of δ at every cell that the set of one, bounded at this level, promises to certify."""
    if level <= 0.0:
        out[:] = 0.0
        return
    z, side = _quantile(_SPENT * level), _quantile(_RANGE * level)
    for k in range(best.size):
        if best[k] <= 0.0:
            out[k] = 0.0
            continue
        far = abs(inflation[k] - inflation[anchor])
        out[k] = max(0.0, value[anchor, k] - z * error[anchor] - side * far * slope_error[anchor]) / best[k]


@_jit
def _compare(shares: Floats, inflation: Floats, train: Floats, k: int, value: Floats) -> None:
    """What the sets of all cells promise of δ at cell k, into `value`, which holds what its own does.

    Outputs between two sets have L̂ between their ε, so that their number tells what is lost; so do shares, up to chance. Both
    are weighed by their variances, and the mean's standard error is taken off.
    """
    c, ratio = inflation[k], train[0] / train[1]
    for way in (-1, 1):
        lost, spread = 0.0, 0.0
        j = k + way
        while 0 <= j < value.size:
            mass = abs(shares[j, 0] - shares[j - way, 0]) + abs(shares[j, 1] - shares[j - way, 1])
            near = abs(c - inflation[j - way]) / (1.0 + inflation[j - way])
            far = abs(c - inflation[j]) / (1.0 + inflation[j])
            lost += 0.5 * mass * (near + far)  # with L = L̂, an output of either side loses this
            spread += mass * abs(near - far) / math.sqrt(12.0)
            seen = value[k] - (shares[j, 0] - c * shares[j, 1])
            apart = abs(shares[j, 0] - shares[k, 0]) + c * c * abs(shares[j, 1] - shares[k, 1]) * ratio
            chance = (apart + (1.0 + c * c * ratio * ratio) / train[0]) / train[0]
            both = spread * spread + chance
            value[j] = value[k] - (seen * spread * spread + lost * chance) / both - spread * math.sqrt(chance / both)
            j += way


@_jit
def _choose(
    shares: Floats, tests: Floats, inflation: Floats, weight: Floats, total: float, train: Floats, out: Floats
) -> None:
    """Levels of one direction's cells into `out`, which sum to `total`; 0 of cells that are not chosen."""
    cells = inflation.size
    value, best = np.empty((cells, cells)), np.empty(cells)
    error, slope_error = np.empty(cells), np.empty(cells)
    lead, most = 0, -np.inf
    for j in range(cells):
        a, b, n0, n1, c = shares[j, 0], shares[j, 1], tests[j, 0], tests[j, 1], inflation[j]
        var_b = (b + 1.0 / n1) * (1.0 - b) / n1
        slope_error[j] = math.sqrt(var_b)
        error[j] = math.sqrt((a + 1.0 / n0) * (1.0 - a) / n0 + c * c * var_b) + 1e-300
        value[j, j] = a - c * b
        if value[j, j] / error[j] > most:
            lead, most = j, value[j, j] / error[j]
    for k in range(cells):
        _compare(shares, inflation, train, k, value[:, k])
        best[k] = value[:, k].max()
    row, cover, promise = np.empty(cells), np.empty(cells), np.empty((cells, cells))
    chosen, level, need = np.empty(cells, np.int64), np.empty(cells), np.empty(cells)
    hopeful = np.empty(cells, np.bool_)  # promise anything at this level
    top = 0.0
    out[:] = 0.0
    out[lead] = total
    for number in (*_SIZES, cells):
        if number > cells:
            continue
        hopeful[:] = False
        for j in range(cells):
            _promise(value, error, slope_error, inflation, best, j, total / number, promise[j])
            for k in range(cells):
                hopeful[j] = hopeful[j] or promise[j, k] > 0.0
        if number == 1 and not hopeful.any():
            return  # nor does any set promise anything at a smaller level
        cover[:] = 0.0
        taken = np.zeros(cells, np.bool_)
        for at in range(number):  # the cell that adds most to what the others promise
            pick, gain, so_far = -1, -1.0, 0.0
            for k in range(cells):
                so_far += weight[k] * cover[k] ** 2
            for j in range(cells):
                if taken[j]:
                    continue
                more = 0.0 if hopeful[j] else so_far
                for k in range(cells if hopeful[j] else 0):
                    more += weight[k] * max(cover[k], promise[j, k]) ** 2
                if more > gain:
                    pick, gain = j, more
            taken[pick] = True
            chosen[at] = pick
            for k in range(cells):
                cover[k] = max(cover[k], promise[pick, k])
        level[:number] = total / number
        for _ in range(_ROUNDS):
            cover[:] = 0.0
            serves = np.zeros(cells, np.int64)
            for at in range(number):
                _promise(value, error, slope_error, inflation, best, chosen[at], level[at], row)
                for k in range(cells):
                    if row[k] > cover[k]:
                        cover[k], serves[k] = row[k], at
            score, needs = 0.0, 0.0
            need[:number] = 0.0
            for k in range(cells):
                score += weight[k] * cover[k] ** 2
                if cover[k] > 0.0:  # d/dz of the score: a normal tail's density goes about as its level does
                    more = weight[k] * cover[k] * error[chosen[serves[k]]] / best[k]
                    need[serves[k]] += more
                    needs += more
            if score > top * (1.0 + 1e-9):
                top = score
                out[:] = 0.0
                for at in range(number):
                    out[chosen[at]] = level[at]
            if needs == 0.0:
                break
            for at in range(number):
                level[at] = total * need[at] / needs if need[at] > _LEAST * needs else 0.0


@_jit
def _place_levels(level: Floats, shares: Floats, tests: Floats, inflation: Floats, train: Floats) -> Floats:
    """Levels (groups, cells) placed anew, each group's sum kept; shares, tests (groups, cells, 2), NaN: unknown."""
    groups, cells = level.shape
    out = level.copy()
    step = max(1, -(-cells // _MOST))
    place = np.arange(step // 2, cells, step)
    share, tested, weight = np.empty((place.size, 2)), np.empty((place.size, 2)), np.empty(place.size)
    placed, grid = np.empty(place.size), np.empty(place.size)
    for g in range(groups):
        total, known = 0.0, True
        for k in range(cells):
            total += level[g, k]
            known = known and not math.isnan(shares[g, k, 0]) and not math.isnan(shares[g, k, 1])
        if not known or not total > 0.0 or (train[g] < _FEWEST * tests[g, 0]).any():
            continue
        for i in range(place.size):
            k = place[i]
            grid[i], weight[i] = inflation[k], level[g, k] / total
            for side in range(2):
                share[i, side], tested[i, side] = shares[g, k, side], tests[g, k, side]
        _choose(share, tested, grid, weight, total, train[g], placed)
        summed = 0.0
        for i in range(place.size):
            summed += placed[i]
        for k in range(cells):
            out[g, k] = 0.0
        for i in range(place.size):
            out[g, place[i]] = placed[i] * (total / summed)
    return out
