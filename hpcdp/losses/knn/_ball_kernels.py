"""Kernels that find a query's closed k-ball in a `KdTree` and add up the weights in it, one query after the other.

The k-th rank (see `_rank_kernels`) is looked for in a narrow window. The distance to the k-th nearest point changes by
at most as much as the query moves, and mostly by a small part of it, so the nearest of the last queries tells a good
window; where none is near, a sample of the points does. Counts tell whether the window was right; if it was not,
another is tried, and at last one that must be right. So guesses never change a vote.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel
from hpcdp.losses.knn._rank_kernels import fold, last_equal, near_queries, rank_boxes, rank_points, to_distance, to_rank
from hpcdp.losses.knn._selection_kernels import (
    LABEL_BITS,
    LABEL_MASK,
    bracket,
    growth,
    guess_rank,
    next_window,
    points_of,
    weigh,
)

GROUP = 64  # at most so many queries share one list of leaves
_LATELY = 32  # queries that the next one is compared with
_TRUSTED = 0.4  # a query that is farther away than this part of its radius tells too little
_NARROWEST, _WIDEST = 1e-3, 4.0  # a window reaches from guess / (1 + window) to guess · (1 + window)


@kernel()
def list_leaves(tree_low, tree_high, first, last, most, metric, leaves, boxes, stack):  # type: ignore[no-untyped-def]
    """List the leaves that have points of rank at most `most` from the box [first, last]; returns how many."""
    half = tree_low.shape[0] // 2
    found, top = 0, 1
    stack[0] = 1
    while top:
        top -= 1
        node = stack[top]
        rank = 0.0
        for c in range(first.size):
            rank = fold(rank, max(tree_low[node, c] - last[c], first[c] - tree_high[node, c], 0.0), metric)
        if rank > most:
            continue
        if node < half:
            stack[top], stack[top + 1] = 2 * node + 1, 2 * node
            top += 2
            continue
        leaves[found] = node - half
        for c in range(first.size):
            boxes[0, c, found] = tree_low[node, c]
            boxes[1, c, found] = tree_high[node, c]
        found += 1
    return found


@kernel()
def certain(query, tree_low, tree_high, held, leaf, need, metric):  # type: ignore[no-untyped-def]
    """A rank that at least `need` points do not exceed: the farthest corner of a box around the query's leaf."""
    node = held.size // 2 + leaf
    while node > 1 and points_of(held[node]) < need:
        node >>= 1
    rank = 0.0
    for c in range(query.size):
        rank = fold(rank, max(tree_high[node, c] - query[c], query[c] - tree_low[node, c]), metric)
    return last_equal(rank, metric)


@kernel()
def _scan(query, low, high, blocks, weights, held, size, metric, work):  # type: ignore[no-untyped-def]
    """Copy ranks and weights of all leaves that have points up to rank `high`, but only add up leaves up to `low`.

    Returns the added weight and how many ranks were copied.
    """
    leaves, _, _, near, far, _, rim, rim_weights, _, _ = work
    inner, found = np.int64(0), 0
    half, width = blocks.shape[0], blocks.shape[2]
    for position in range(size):
        if near[position] > high:
            continue
        leaf = leaves[position]
        if far[position] <= low:
            inner += held[half + leaf]
            continue
        rank_points(query, blocks, leaf, metric, rim[found : found + width])
        for j in range(width):
            rim_weights[found + j] = weights[leaf, j]
        found += width
    return inner, found


@kernel()
def tune(window, failed):  # type: ignore[no-untyped-def]
    """The width of the next window: one in twenty fails, or so, which is cheaper than wider ones."""
    return min(_WIDEST, window * 1.2) if failed else max(_NARROWEST, window * 0.99)


@kernel()
def settle(tree, query, leaf, window, low, high, cover, work, need, metric):  # type: ignore[no-untyped-def]
    """(k-th rank, ball's weight, scans, size and reach of the list) of one query, first tried with [low, high].

    cover: (first, last, size, reach), the list of leaves in `work` that serves all queries in a box.
    """
    blocks, weights, tree_low, tree_high, held = tree
    leaves, stack, boxes, near, far, _, rim, rim_weights, few, few_weights = work
    first, last, size, reach = cover
    floor, ceiling = -1.0, np.inf  # the k-th rank is above the one and, with all as far, at most the other
    scans, ranked = 0, False
    while True:
        if high > reach or high < 0.5 * reach:
            reach = 1.2 * high
            size = list_leaves(tree_low, tree_high, first, last, reach, metric, leaves, boxes, stack)
            ranked = False
        if not ranked:
            rank_boxes(query, boxes, size, metric, near, far)
            ranked = True
        inner, found = _scan(query, low, high, blocks, weights, held, size, metric, work)
        scans += 1
        sure = points_of(inner)
        below, above, rank, end = bracket(rim, rim_weights, found, low, high, need - sure, metric, few, few_weights)
        if 0.0 <= end <= high:
            return rank, inner + weigh(rim, rim_weights, found, end), scans, size, reach
        below, above = below + sure, above + sure
        if end > high:  # the last of the ball are as far as the window's end, by one root
            high = ceiling = end
            continue
        if below >= need:
            ceiling = last_equal(low, metric)
        else:
            floor = high
        low, high = next_window(low, high, below, above, need, window, growth(metric, query.size))
        if scans >= 4 or not floor <= low <= high:
            if ceiling == np.inf:
                ceiling = certain(query, tree_low, tree_high, held, leaf, need, metric)
            low, high = floor, ceiling
        high = min(high, ceiling) if below < need else ceiling


@kernel()
def make_work(half, columns, width):  # type: ignore[no-untyped-def]
    """Arrays that `settle` works in, for a tree of `half` leaves of `width` points."""
    size = half * width
    return (
        np.empty(half, np.int64),
        np.empty(128, np.int64),
        np.empty((2, columns, half)),
        np.empty(half),
        np.empty(half),
        np.empty(width),
        np.empty(size),
        np.empty(size, np.int64),
        np.empty(size),
        np.empty(size, np.int64),
    )


@kernel()
def box_of(queries, places, first, last):  # type: ignore[no-untyped-def]
    """The smallest box around the queries at these places, into first and last (d,)."""
    first[:], last[:] = np.inf, -np.inf
    for place in places:
        for c in range(first.size):
            x = queries[place, c]
            first[c], last[c] = min(first[c], x), max(last[c], x)


@kernel()
def group_end(leaf_of, order, start):  # type: ignore[no-untyped-def]
    """Where a group of queries ends: at a new leaf, if it is not too small by then, and at its largest size."""
    stop = start + 1
    while stop < order.size and stop < start + GROUP:
        if stop >= start + GROUP // 4 and leaf_of[order[stop]] != leaf_of[order[start]]:
            break
        stop += 1
    return stop


@kernel()
def vote_in_turn(tree, sample, stands, queries, leaf_of, order, need, metric, v0, v1):  # type: ignore[no-untyped-def]
    """Votes of both sides, into v0 and v1 (size,), in the closed ball of each query (size, d) that `order` names.

    tree: blocks, weights, low, high and held of a `KdTree`. sample: (1, d, size) some of the points, each of which
    stands for so many (size,). leaf_of: the leaf of each query. need: how many points the ball holds at least, at most
    all.
    """
    half, columns, width = tree[0].shape
    work = make_work(half, columns, width)
    first, last = np.empty(columns), np.empty(columns)
    lately, radii, away = np.full((columns, _LATELY), np.inf), np.zeros(_LATELY), np.empty(_LATELY)
    sample_ranks = np.empty(stands.size)
    step, window, guess = 0.5, 0.3, 0.0
    start = 0
    while start < order.size:
        stop = group_end(leaf_of, order, start)
        box_of(queries, order[start:stop], first, last)
        size, reach = 0, -1.0
        for t in range(start, stop):
            place = order[t]
            query, leaf = queries[place], leaf_of[place]
            near_queries(lately, _LATELY, query, query, metric, away)
            nearest = away.argmin()
            radius, moved = radii[nearest], step * to_distance(away[nearest], metric)
            known = moved < _TRUSTED * radius
            if known:
                low, high = to_rank(radius - moved, metric), to_rank(radius + moved, metric)
            else:
                if guess <= 0.0:
                    guess = certain(query, tree[2], tree[3], tree[4], leaf, need, metric)
                guess = guess_rank(query, sample, stands, need, metric, sample_ranks, guess)
                low, high = guess / (1.0 + window), guess * (1.0 + window)
            rank, weight, scans, size, reach = settle(
                tree, query, leaf, 0.2, low, high, (first, last, size, reach), work, need, metric
            )
            if known:
                step = min(1.0, tune(step, scans > 1))
            else:
                window = tune(window, scans > 1)
            v0[place], v1[place] = weight >> LABEL_BITS, weight & LABEL_MASK
            lately[:, t % _LATELY] = query
            radii[t % _LATELY] = to_distance(rank, metric)
        start = stop
