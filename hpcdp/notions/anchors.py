"""Anchors: few cells of a pair and direction that have its level, and what their sets bound at all ε."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions._anchor_kernels import place_levels
from hpcdp.notions.bounds import BERGER_BOOS_SHARE, binomial_lower, binomial_upper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def anchor_level(
    level: Floats,
    training_share: Floats,
    test: Ints,
    epsilons: Floats,
    train: Ints,
) -> Floats:
    """The level of each pair and direction on few of its cells, its anchors, whose bounds say most of all its cells.

    A set's bound at one ε bounds δ at every other (`extended`), so that few sets can serve all ε. Which, and how each pair and
    direction's level is shared by them, is chosen to make the mean square of the certified share of δ as large as training
    samples promise, cells weighted by `level`. The choice is **heuristic**; that training samples alone make it keeps every bound
    **finite-sample**. A bound of their own for all of up to 64 ε is among what is weighed.

    Args:
        level: failure probabilities, shape (pairs, 2, epsilons). training_share: shares of training outputs (…, 2), the side
            that is not inflated first; NaN where unknown. test: sizes of the same shape. train: how many
            training outputs these are shares of, (pairs, 2, 1, 2). Where shares are unknown, or of less than a hundredth of
            the test outputs, the level stays as it is.

    Returns:
        Levels of the same shape and, for each pair and direction, the same sum, up to rounding; 0 of cells that are no anchors.
    """
    shares = np.clip(training_share, 0.0, 1.0)
    unseen = (shares == 0.0).all(axis=-1)  # no training output: what so many may have missed
    shares[..., 0] = np.where(unseen, 1.0 / train[..., 0], shares[..., 0])
    groups, cells = level.shape[0] * level.shape[1], level.shape[2]
    placed = place_levels(
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
    """Limits on b = Q(S) that the bounds of cells (k,) pay for already, from below and from above; 0 where the bound is 0.

    The joint bound l on a − c·b pays for b in its two-sided Clopper–Pearson interval (Berger and Boos 1994), and a <= 1 makes b
    at most (1 − l)/c. The region of the split bound is a corner: a's lower limit with b's upper limit, which is given twice.
    **Finite-sample**, together with the bounds. Where l is 0 nothing is known of the set.

    Args:
        x, test: counts in the sets and in all, (k, 2), the side that is not inflated first. inflation: c = e^ε, above 0.
        level: failure probabilities of the bounds. split: which are split bounds. lower: the bounds, from 0 to 1.
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

    P(S) − c'·Q(S) is at least l − (c' − c)·b, with the limit on b that makes it least, and δ at c' is at least that. With b
    from 0 to (1 − l)/c it is what `hpcdp.notions.implied` says of every bound. inflation: e^ε of the cells, (epsilons,).
    """
    bounds = own.copy()
    for at in np.flatnonzero((own > 0.0).reshape(-1, own.shape[-1]).any(axis=0)):
        far = inflation - inflation[at]
        change = far * np.where(far > 0.0, most[..., at, None], least[..., at, None])
        rounding = np.where(far == 0.0, 0.0, 4e-16 * (1.0 + np.abs(change)))
        np.maximum(bounds, own[..., at, None] - change - rounding, out=bounds)
    return bounds
