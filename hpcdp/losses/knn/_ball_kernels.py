"""Kernels that find a query's closed k-ball among the boxes of a `Tree`, and add up the weights in it.

A rank is what distances are compared by: the sum of squared differences, the sum of differences, or the largest one, added
in the order of the columns in float64. Euclidean distances are square roots of ranks, and ranks of one square root are one
distance. Rounding is monotone, so the ranks of a box's nearest and farthest corner, added in the same order, bound the
computed ranks of its points: no box is left out or taken whole wrongly, and no tolerance is needed.

The k-th rank is looked for in a window. The distance to the k-th nearest point changes by at most as much as the query moves,
and mostly by a small part of it, so the nearest of the last queries tells a good window. Counts tell whether the window was
right, and on which side it was wrong. So guesses never change a vote.

A weight is c0 · 2³² + c1, the counts of both sides, so that one addition adds both.
"""

from __future__ import annotations

import math

import numpy as np

from hpcdp._base.kernels import kernel

EUCLIDEAN, MANHATTAN, CHEBYSHEV = 0, 1, 2
LABEL_BITS = np.int64(32)
LABEL_MASK = (np.int64(1) << LABEL_BITS) - 1

_LATELY = 32  # queries that the next one is compared with
_NARROWEST = 1e-3  # part of the way between two queries by which a window is wider than nothing
_FEW = 32  # so many points are few enough to go through one by one


@kernel()
def rank_points(query, blocks, leaf, metric, ranks):  # type: ignore[no-untyped-def]
    """Ranks of the points of a leaf: Σ (x − y)², Σ |x − y|, or max |x − y|."""
    ranks[:] = 0.0
    for c in range(blocks.shape[1]):
        x = query[c]
        if metric == EUCLIDEAN:
            for j in range(blocks.shape[2]):
                gap = x - blocks[leaf, c, j]
                ranks[j] += gap * gap
        elif metric == MANHATTAN:
            for j in range(blocks.shape[2]):
                ranks[j] += abs(x - blocks[leaf, c, j])
        else:
            for j in range(blocks.shape[2]):
                gap = abs(x - blocks[leaf, c, j])
                ranks[j] = gap if gap > ranks[j] else ranks[j]


@kernel()
def rank_box(query, low, high, metric):  # type: ignore[no-untyped-def]
    """Least and greatest possible ranks of points in the box [low, high]."""
    near = far = 0.0
    for c in range(query.size):
        below, above = low[c] - query[c], query[c] - high[c]
        gap = below if below > above else above
        gap, reach = (gap if gap > 0.0 else 0.0), (-below if below < above else -above)
        if metric == EUCLIDEAN:
            near, far = near + gap * gap, far + reach * reach
        elif metric == MANHATTAN:
            near, far = near + gap, far + reach
        else:
            near, far = max(near, gap), max(far, reach)
    return near, far


@kernel()
def _points_of(weight):  # type: ignore[no-untyped-def]
    """How many points of both sides a weight counts."""
    return (weight >> LABEL_BITS) + (weight & LABEL_MASK)


@kernel()
def _weigh(ranks, weights, size, most):  # type: ignore[no-untyped-def]
    """The weight of the points up to rank `most`."""
    total = np.int64(0)
    for i in range(size):
        total += weights[i] if ranks[i] <= most else 0
    return total


@kernel()
def _select(ranks, weights, size, low, high, least, most, need, few):  # type: ignore[no-untyped-def]
    """The smallest rank that `need` points do not exceed, of which `least` are up to `low` and `most` up to `high`."""
    while most - least > _FEW:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        points = _points_of(_weigh(ranks, weights, size, middle))
        if points >= need:
            high, most = middle, points
        else:
            low, least = middle, points
    count = 0
    for i in range(size):
        if low < ranks[i] <= high:
            few[count] = i
            count += 1
    while True:
        next_one = np.inf
        for t in range(count):
            rank = ranks[few[t]]
            next_one = rank if low < rank < next_one else next_one
        for t in range(count):
            least += _points_of(weights[few[t]]) if ranks[few[t]] == next_one else 0
        if least >= need:
            return next_one
        low = next_one


@kernel()
def _scan(query, tree, low, high, metric, work):  # type: ignore[no-untyped-def]
    """Copy ranks up to `high`, and weights, to the rim, but only add up boxes up to rank `low`; that weight, how many ranks."""
    blocks, weights, lows, highs, held = tree
    stack, ranks, rim, rim_weights, _ = work
    inner, copied, top = np.int64(0), 0, 1
    stack[0] = 1
    while top:
        top -= 1
        node = stack[top]
        near, far = rank_box(query, lows[node], highs[node], metric)
        if near > high:
            continue
        leaf = node - blocks.shape[0]
        if far <= low:
            inner += held[node]
        elif leaf < 0:
            stack[top], stack[top + 1] = 2 * node + 1, 2 * node
            top += 2
        else:
            rank_points(query, blocks, leaf, metric, ranks)
            for j in range(ranks.size):
                rim[copied], rim_weights[copied] = ranks[j], weights[leaf, j]
                copied += ranks[j] <= high
    return inner, copied


@kernel()
def _settle(query, tree, low, high, need, metric, work):  # type: ignore[no-untyped-def]
    """(k-th rank, ball's weight, scans) of one query, first tried with the window [low, high]."""
    _, _, rim, rim_weights, few = work
    scans = 0
    while True:
        inner, copied = _scan(query, tree, low, high, metric, work)
        scans += 1
        sure = _points_of(inner)
        below = _points_of(_weigh(rim, rim_weights, copied, low))
        above = _points_of(_weigh(rim, rim_weights, copied, high))
        if sure + below >= need:
            low, high = -1.0, low
        elif sure + above < need:
            low, high = high, 2.0 * high if high > 0.0 else np.inf
        else:
            rank = _select(rim, rim_weights, copied, low, high, below, above, need - sure, few)
            end = rank  # the largest rank that is the same distance
            if metric == EUCLIDEAN and rank < np.inf:
                bits = np.float64(rank).view(np.int64)
                while math.sqrt(np.int64(bits + 1).view(np.float64)) == math.sqrt(rank):
                    bits += 1
                end = np.int64(bits).view(np.float64)
            if end <= high:
                return rank, inner + _weigh(rim, rim_weights, copied, end), scans
            high = end  # the last of the ball are as far as the window's end, by one root


@kernel()
def vote(tree, queries, leaf_of, order, need, metric, v0, v1):  # type: ignore[no-untyped-def]
    """Votes, into v0 and v1 (size,), of both sides in the closed balls of `need` points or more around queries, in this order."""
    half, columns, width = tree[0].shape
    size = half * width
    work = (
        np.empty(128, np.int64),
        np.empty(width),
        np.empty(size),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    lately, radii, away = np.full((1, columns, _LATELY), np.inf), np.empty(_LATELY), np.empty(_LATELY)
    node = half + leaf_of[order[0]]
    while _points_of(tree[4][node]) < need:
        node //= 2
    _, far = rank_box(
        queries[order[0]], tree[2][node], tree[3][node], metric
    )  # the first radius is at most to its corner
    radii[:] = math.sqrt(far) if metric == EUCLIDEAN else far
    step = 0.5
    for t in range(order.size):
        query = queries[order[t]]
        rank_points(query, lately, 0, metric, away)
        nearest = away.argmin()
        radius, moved = radii[nearest], step * (math.sqrt(away[nearest]) if metric == EUCLIDEAN else away[nearest])
        moved = min(moved, 0.5 * radius)
        low, high = radius - moved, radius + moved
        if metric == EUCLIDEAN:
            low, high = low * low, high * high
        rank, weight, scans = _settle(query, tree, low, high, need, metric, work)
        # one window in twenty fails, or so, which is cheaper than wider ones
        step = min(1.0, step * 1.2) if scans > 1 else max(_NARROWEST, step * 0.99)
        v0[order[t]], v1[order[t]] = weight >> LABEL_BITS, weight & LABEL_MASK
        lately[0, :, t % _LATELY] = query
        radii[t % _LATELY] = math.sqrt(rank) if metric == EUCLIDEAN else rank
