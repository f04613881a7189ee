"""The privacy spectrum: δ̂, its standard error and bounds per cell (pair, direction, ε), and the maximum over pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions.anchors import extended, slopes
from hpcdp.notions.bounds import joint_lower, normal_upper, split_lower, standard_error

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_AT_ONCE = 1 << 20  # cells: what is computed of each on the way takes several hundred bytes
_MANY, _COARSE = 32, 8.0  # counts, and steps of T in X1 per step in X0, from which the split bound may be better

LowerBounds = Callable[[Ints, Ints, Ints, Ints, Floats, Floats, NDArray[np.bool_]], Floats]
"""Certified lower bounds of flat arrays of cells (see `lower_bounds`); a run hands in one that uses its workers."""


@dataclass(frozen=True, eq=False)
class Cells:
    """All cells of a run, arrays of shape (pairs, 2, epsilons); direction 0 is forward (D, D'), 1 reverse.

    exceed, test: with a last axis, the side that is not inflated first; −1, and NaN of floats, where counts are missing. delta:
    max(0, a − e^ε·b). standard_error: asymptotic. lower: finite-sample, simultaneous over all cells. upper: approximate.
    """

    delta: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    exceed: Ints
    test: Ints


def exceedances(above: Ints, below: Ints, thresholds: Floats, epsilons: Floats) -> Ints:
    """Counts per cell of one pair, (2, epsilons, 2): L̂ > ε of D, then D'; reverse L̂ < −ε of D', then D."""
    forward = np.searchsorted(thresholds, epsilons)
    reverse = np.searchsorted(thresholds, -epsilons + 0.0)
    return np.stack([above[:, forward].T, below[::-1, reverse].T])


def by_direction(sides: NDArray[np.number]) -> NDArray[Any]:
    """What (pairs, 2) says of D and of D', as (pairs, 2, 1, 2): of both directions, the side that is not inflated first."""
    return np.stack([sides, sides[:, ::-1]], axis=1)[:, :, None, :]


def estimate(exceed: Ints, test: Ints, epsilons: Floats) -> Floats:
    """max(0, a − e^ε·b), the low-variance form of Lu et al., Theorem 4; NaN where exceed is negative."""
    share = exceed / test
    value = np.maximum(0.0, share[..., 0] - np.exp(epsilons) * share[..., 1])
    return np.where((exceed >= 0).all(axis=-1), value, np.nan)


def lower_bounds(
    x0: Ints, n0: Ints, x1: Ints, n1: Ints, inflation: Floats, level: Floats, split: NDArray[np.bool_]
) -> Floats:
    """Bounds on max(0, a − e^ε·b) of flat cells, joint or split as told. Finite-sample, whatever the classifier."""
    out = np.empty(x0.size)
    for chosen, bound in ((~split, partial(joint_lower, floor=0.0)), (split, split_lower)):
        if chosen.any():
            out[chosen] = bound(*(values[chosen] for values in (x0, n0, x1, n1, inflation, level)))
    return np.maximum(0.0, out)


def prefer_split(share: Floats, test: Ints, inflation: Floats, level: Floats, run: LowerBounds) -> NDArray[np.bool_]:
    """Cells whose split bound should be the better one, from shares (cells, 2) of training outputs alone, of `test` counts."""
    expected = np.rint(np.clip(share, 0.0, 1.0) * test).astype(np.int64)
    fewest = np.minimum(expected, test - expected).min(axis=1)
    better = (fewest < _MANY) | (inflation * test[:, 0] > _COARSE * test[:, 1])  # elsewhere the joint bound is
    if better.any():
        x, n, c, a = (values[better] for values in (expected, test, inflation, level))
        no, yes = np.zeros(a.size, np.bool_), np.ones(a.size, np.bool_)
        arguments = (x[:, 0], n[:, 0], x[:, 1], n[:, 1], c, a)
        better[better] = run(*arguments, yes) > run(*arguments, no)
    return better


def make_cells(
    exceed: Ints,
    test: Ints,
    training_share: Floats | None,
    epsilons: Floats,
    level: Floats,
    confidence: float,
    run: LowerBounds,
) -> Cells:
    """All cells from counts (pairs, 2, epsilons, 2); where `level` is 0, only what bounds of the pair and direction imply."""
    size = max(1, _AT_ONCE // max(1, 2 * epsilons.size))
    slices = [slice(start, start + size) for start in range(0, exceed.shape[0], size)] or [slice(None)]
    shares = np.zeros(exceed.shape) if training_share is None else np.nan_to_num(training_share)
    parts = [_cells_of(exceed[s], test[s], shares[s], level[s], epsilons, confidence, run) for s in slices]
    delta, error, lower, upper = (np.concatenate(values) for values in zip(*parts, strict=True))
    return Cells(delta, error, lower, upper, exceed, test)


def _cells_of(
    exceed: Ints, test: Ints, shares: Floats, level: Floats, epsilons: Floats, confidence: float, run: LowerBounds
) -> tuple[Floats, Floats, Floats, Floats]:
    """δ̂, standard errors, lower and upper bounds of some pairs (see `make_cells`)."""
    known = (exceed >= 0).all(axis=-1)
    bounded = known & (level > 0.0)
    inflation = np.broadcast_to(np.exp(epsilons), known.shape)
    x, n, c, a = exceed[bounded], test[bounded], inflation[bounded], level[bounded]
    delta = estimate(exceed, test, epsilons)
    lower, upper, error = (np.full(known.shape, np.nan) for _ in range(3))
    lower[known] = 0.0
    if x.size:
        share = shares[bounded]
        # where nothing is above 0 in training no bound will be, and the choice does not matter
        hopeful = share[:, 0] > c * share[:, 1]
        split = np.zeros(a.size, np.bool_)
        if hopeful.any():
            split[hopeful] = prefer_split(share[hopeful], n[hopeful], c[hopeful], a[hopeful], run)
        own, least, most = (np.zeros(known.shape) for _ in range(3))
        own[bounded] = run(x[:, 0], n[:, 0], x[:, 1], n[:, 1], c, a, split)
        least[bounded], most[bounded] = slopes(x, n, c, a, split, own[bounded])
        lower[known] = extended(own, least, most, np.exp(epsilons))[known]
    if known.any():
        x, n, c = exceed[known], test[known], inflation[known]
        upper[known] = normal_upper(x[:, 0], n[:, 0], x[:, 1], n[:, 1], c, confidence)
        error[known] = standard_error(x[:, 0], n[:, 0], x[:, 1], n[:, 1], c)
    return delta, error, lower, upper


@dataclass(frozen=True, eq=False)
class Maximum:
    """The largest cell at each ε, arrays of shape (epsilons,): of the estimates, and of the bounds; −1 where none is known."""

    delta: Floats
    pair: Ints
    direction: Ints
    lower: Floats
    lower_pair: Ints
    lower_direction: Ints
    upper: Floats


TOLD = 8
"""Pairs with less than this part of the test samples of the pair with most are left out of the largest estimate."""


def told_pairs(test: Ints) -> NDArray[np.bool_]:
    """Pairs, (pairs,), with at least an eighth of the most test samples: the largest of many rough estimates would be noise."""
    most = test.max(axis=(1, 2, 3))
    return np.asarray(TOLD * most >= most.max())


def maximum(cells: Cells, resolved: NDArray[np.bool_] | None = None) -> Maximum:
    """Relative-DP spectrum: of estimates biased upward, of bounds not, as all share the level; resolved: whose δ̂ take part."""
    rough = np.zeros(cells.delta.shape[0], np.bool_) if resolved is None else ~resolved
    delta, upper = (np.where(rough[:, None, None], np.nan, values) for values in (cells.delta, cells.upper))
    best, pair, direction = _largest(delta)
    lower, lower_pair, lower_direction = _largest(cells.lower)
    return Maximum(best, pair, direction, lower, lower_pair, lower_direction, _largest(upper)[0])


def _largest(values: Floats) -> tuple[Floats, Ints, Ints]:
    flat = np.where(np.isnan(values), -np.inf, values).reshape(-1, values.shape[-1])
    place = flat.argmax(axis=0)
    best = flat[place, np.arange(flat.shape[1])]
    known = best > -np.inf
    pair, direction = np.where(known, place // 2, -1), np.where(known, place % 2, -1)
    return np.where(known, best, np.nan), pair.astype(np.int64), direction.astype(np.int64)
