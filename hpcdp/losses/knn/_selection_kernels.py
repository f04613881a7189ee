"""Kernels that find the k-th smallest of many ranks in a window, and windows that probably hold it.

A weight is c0 · 2³² + c1, the counts of both sides, so that one addition adds both.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel
from hpcdp.losses.knn._rank_kernels import EUCLIDEAN, last_equal, rank_points

LABEL_BITS = np.int64(32)
LABEL_MASK = (np.int64(1) << LABEL_BITS) - 1
_FEW = 32  # so many points are few enough to select from
_NARROWINGS = 8


@kernel()
def points_of(weight):  # type: ignore[no-untyped-def]
    """How many points of both sides a weight counts."""
    return (weight >> LABEL_BITS) + (weight & LABEL_MASK)


@kernel()
def _select(rim, weights, size, need):  # type: ignore[no-untyped-def]
    """The smallest rank that rim points of weight at least `need` do not exceed; reorders the rim."""
    low, high = 0, size - 1
    while True:
        a, b, c = rim[low], rim[(low + high) >> 1], rim[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        left = np.int64(0)
        while i <= j:
            while rim[i] < pivot:
                left += points_of(weights[i])
                i += 1
            while rim[j] > pivot:
                j -= 1
            if i <= j:
                rim[i], rim[j] = rim[j], rim[i]
                weights[i], weights[j] = weights[j], weights[i]
                left += points_of(weights[i])
                i += 1
                j -= 1
        # now rim[low:i] <= pivot weighs left, rim[j+1:high+1] >= pivot, and rim[j+1:i] == pivot
        middle = left
        for t in range(j + 1, i):
            middle -= points_of(weights[t])
        if need <= middle:
            high = j
        elif need <= left:
            return pivot
        else:
            need -= left
            low = i
        if low == high:
            return rim[low]


@kernel()
def weigh(ranks, weights, size, most):  # type: ignore[no-untyped-def]
    """The weight of the points up to rank `most`."""
    total = np.int64(0)
    for i in range(size):
        total += weights[i] if ranks[i] <= most else 0
    return total


@kernel()
def bracket(rim, rim_weights, size, low, high, need, metric, few, few_weights):  # type: ignore[no-untyped-def]
    """(points up to `low`, points up to `high`, k-th rank, last rank as far) where `need` points make the ball.

    The ranks are -1 where the k-th is not in the window. Counting by vectors narrows the window until few points are
    left to select from.
    """
    above = most = points_of(weigh(rim, rim_weights, size, high))
    below = least = points_of(weigh(rim, rim_weights, size, low))
    if most < need or least >= need:
        return below, above, -1.0, -1.0
    for step in range(_NARROWINGS):
        if most - least <= _FEW:
            break
        margin = max(_FEW // 4, (most - least) // 16)
        aim = min(most - 1, max(least + 1, need - margin if step % 2 else need + margin))
        middle = low + (high - low) * (aim - least) / (most - least)
        if not low < middle < high:
            break
        points = points_of(weigh(rim, rim_weights, size, middle))
        if points >= need:
            high, most = middle, points
        else:
            low, least = middle, points
    found = 0
    for i in range(size):
        if low < rim[i] <= high:
            few[found], few_weights[found] = rim[i], rim_weights[i]
            found += 1
    rank = _select(few, few_weights, found, need - least)
    return below, above, rank, last_equal(rank, metric)


@kernel()
def next_window(low, high, below, above, need, window, exponent):  # type: ignore[no-untyped-def]
    """A window beside [low, high] after a scan found so many points below it and up to its end.

    The number of points grows about as the rank to the power 1/exponent.
    """
    if below >= need:
        return low * (need / below) ** exponent / (1.0 + window), low
    return high, high * (need / max(1, above)) ** exponent * (1.0 + window)


@kernel()
def growth(metric, columns):  # type: ignore[no-untyped-def]
    """The power of the number of points that a rank grows with where points lie evenly."""
    return (2.0 if metric == EUCLIDEAN else 1.0) / columns


@kernel()
def guess_rank(query, sample, stands, need, metric, ranks, near):  # type: ignore[no-untyped-def]
    """About the k-th rank, by a sample (1, d, size) of points that stand for so many each; `near` starts the search."""
    rank_points(query, sample, 0, metric, ranks)
    low = high = near
    if weigh(ranks, stands, stands.size, high) >= need:
        while low > 0.0 and weigh(ranks, stands, stands.size, low) >= need:
            low, high = 0.5 * low, low
    else:
        while weigh(ranks, stands, stands.size, high) < need:
            low, high = high, 2.0 * high
    for _ in range(4):
        middle = 0.5 * (low + high)
        if weigh(ranks, stands, stands.size, middle) >= need:
            high = middle
        else:
            low = middle
    return high
