"""Kernels that find a query's closed k-ball among the leaves of a `Tree`, and add up the weights in it.

A rank is what distances are compared by: the sum of squared differences, the sum of differences, or the largest one, added
in the order of the columns in float64. Euclidean distances are square roots of ranks, and ranks of one square root are one
distance. Rounding is monotone, so the ranks of a box's nearest and farthest corner, added in the same order, bound the
computed ranks of its points: no leaf is left out wrongly, and no tolerance is needed.

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

_GROUP = 64  # at most so many queries share one list of leaves
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
def rank_boxes(query, boxes, size, metric, near, far):  # type: ignore[no-untyped-def]
    """Least and greatest possible ranks of the points in the first `size` boxes (2, d, …)."""
    for j in range(size):
        near[j] = far[j] = 0.0
    for c in range(query.size):
        x = query[c]
        for j in range(size):
            below, above = boxes[0, c, j] - x, x - boxes[1, c, j]
            gap = below if below > above else above
            reach = -above if -above > -below else -below
            gap = gap if gap > 0.0 else 0.0
            if metric == EUCLIDEAN:
                near[j] += gap * gap
                far[j] += reach * reach
            elif metric == MANHATTAN:
                near[j] += gap
                far[j] += reach
            else:
                near[j] = gap if gap > near[j] else near[j]
                far[j] = reach if reach > far[j] else far[j]


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
def _list_leaves(low, high, first, last, most, metric, leaves, boxes, stack):  # type: ignore[no-untyped-def]
    """List the leaves that have points of rank at most `most` from the box [first, last]; returns how many."""
    half = low.shape[0] // 2
    count, top = 0, 1
    stack[0] = 1
    while top:
        top -= 1
        node = stack[top]
        rank = 0.0
        for c in range(first.size):
            gap = max(low[node, c] - last[c], first[c] - high[node, c], 0.0)
            if metric == CHEBYSHEV:
                rank = max(rank, gap)
            else:
                rank += gap * gap if metric == EUCLIDEAN else gap
        if rank > most:
            continue
        if node < half:
            stack[top], stack[top + 1] = 2 * node + 1, 2 * node
            top += 2
            continue
        leaves[count] = node - half
        for c in range(first.size):
            boxes[0, c, count], boxes[1, c, count] = low[node, c], high[node, c]
        count += 1
    return count


@kernel()
def _scan(query, tree, size, low, high, metric, work):  # type: ignore[no-untyped-def]
    """Copy ranks up to `high`, and weights, of all listed leaves to the rim, but only add up leaves up to rank `low`."""
    blocks, weights, held = tree[0], tree[1], tree[4]
    leaves, _, _, near, far, ranks, rim, rim_weights, _ = work
    inner, copied = np.int64(0), 0
    half, width = blocks.shape[0], blocks.shape[2]
    for position in range(size):
        if near[position] > high:
            continue
        leaf = leaves[position]
        if far[position] <= low:
            inner += held[half + leaf]
            continue
        rank_points(query, blocks, leaf, metric, ranks)
        for j in range(width):
            rim[copied], rim_weights[copied] = ranks[j], weights[leaf, j]
            copied += ranks[j] <= high
    return inner, copied


@kernel()
def _settle(query, tree, cover, low, high, need, metric, work):  # type: ignore[no-untyped-def]
    """(k-th rank, ball's weight, scans, size and reach of the list) of one query, first tried with the window [low, high]."""
    leaves, stack, boxes, near, far, _, rim, rim_weights, few = work
    first, last, size, reach = cover
    scans, ranked = 0, False
    while True:
        if high > reach or high < 0.5 * reach:
            reach = 1.2 * high
            size = _list_leaves(tree[2], tree[3], first, last, reach, metric, leaves, boxes, stack)
            ranked = False
        if not ranked:
            rank_boxes(query, boxes, size, metric, near, far)
            ranked = True
        inner, copied = _scan(query, tree, size, low, high, metric, work)
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
                return rank, inner + _weigh(rim, rim_weights, copied, end), scans, size, reach
            high = end  # the last of the ball are as far as the window's end, by one root


@kernel()
def vote(tree, queries, leaf_of, order, need, metric, v0, v1):  # type: ignore[no-untyped-def]
    """Votes, into v0 and v1 (size,), of both sides in the closed balls of `need` points or more around queries, in this order."""
    half, columns, width = tree[0].shape
    size = half * width
    work = (
        np.empty(half, np.int64), np.empty(128, np.int64), np.empty((2, columns, half)), np.empty(half), np.empty(half),
        np.empty(width), np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64),
    )  # fmt: skip
    first, last = np.empty(columns), np.empty(columns)
    lately, radii, away = np.full((1, columns, _LATELY), np.inf), np.empty(_LATELY), np.empty(_LATELY)
    node = half + leaf_of[order[0]]
    while _points_of(tree[4][node]) < need:
        node //= 2
    box = np.stack((tree[2][node], tree[3][node])).reshape(2, columns, 1)
    rank_boxes(
        queries[order[0]], box, 1, metric, away, radii
    )  # the first radius is at most to the box's farthest corner
    radii[:] = math.sqrt(radii[0]) if metric == EUCLIDEAN else radii[0]
    step = 0.5
    start = 0
    while start < order.size:
        stop, leaf = start + 1, leaf_of[order[start]]
        while stop < min(order.size, start + _GROUP):  # a group ends at a new leaf, if it is not too small by then
            if stop >= start + _GROUP // 4 and leaf_of[order[stop]] != leaf:
                break
            stop += 1
        first[:], last[:] = np.inf, -np.inf  # the smallest box around these queries
        for place in order[start:stop]:
            for c in range(columns):
                x = queries[place, c]
                first[c], last[c] = min(first[c], x), max(last[c], x)
        size, reach = 0, -1.0
        for t in range(start, stop):
            query = queries[order[t]]
            rank_points(query, lately, 0, metric, away)
            nearest = away.argmin()
            radius, moved = radii[nearest], step * (math.sqrt(away[nearest]) if metric == EUCLIDEAN else away[nearest])
            moved = min(moved, 0.5 * radius)
            low, high = radius - moved, radius + moved
            if metric == EUCLIDEAN:
                low, high = low * low, high * high
            cover = (first, last, size, reach)
            rank, weight, scans, size, reach = _settle(query, tree, cover, low, high, need, metric, work)
            # one window in twenty fails, or so, which is cheaper than wider ones
            step = min(1.0, step * 1.2) if scans > 1 else max(_NARROWEST, step * 0.99)
            v0[order[t]], v1[order[t]] = weight >> LABEL_BITS, weight & LABEL_MASK
            lately[0, :, t % _LATELY] = query
            radii[t % _LATELY] = math.sqrt(rank) if metric == EUCLIDEAN else rank
        start = stop
