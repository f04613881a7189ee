"""Votes of many columns, a group of queries at a time: a leaf is read once for all queries that need it.

With many columns a ball meets a large part of all leaves, so reading them again for each query would take most of the
time. And the query before tells little about the k-th rank of the next; a sample of the points tells more. As in
`_ball_kernels`, guesses never change a vote.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel
from hpcdp.losses.knn._ball_kernels import GROUP, box_of, certain, list_leaves, make_work, settle
from hpcdp.losses.knn._rank_kernels import near_queries, rank_points
from hpcdp.losses.knn._selection_kernels import LABEL_BITS, LABEL_MASK, bracket, growth, guess_rank, next_window, weigh

_ROUNDS = 2  # as often a group is scanned; queries whose windows were wrong each time are settled one by one
_NARROWEST, _WIDEST = 0.02, 1.0
_SPARE = 1024  # a rim has room for 4k points and so many more
_ENTRIES = 1 << 21  # of all rims of a group, 16 bytes each


@kernel()
def _scan_group(tree, group, columns, size, high, listed, metric, near, work, rooms):  # type: ignore[no-untyped-def]
    """Copy ranks up to `high` and their weights into the rim of each of the first `size` queries; a full rim stays."""
    blocks, weights = tree[0], tree[1]
    leaves, boxes, ranks = work[0], work[2], work[5]
    found, rims, rim_weights = rooms
    width, capacity = blocks.shape[2], rims.shape[1]
    found[:size] = 0
    for position in range(listed):
        leaf = leaves[position]
        near_queries(columns, size, boxes[0, :, position], boxes[1, :, position], metric, near)
        for a in range(size):
            if near[a] > high[a] or found[a] + width > capacity:
                continue
            rank_points(group[a], blocks, leaf, metric, ranks)
            most = high[a]
            within = 0
            for j in range(width):
                within += ranks[j] <= most
            if within:
                t = found[a]
                for j in range(width):
                    if ranks[j] <= most:
                        rims[a, t], rim_weights[a, t] = ranks[j], weights[leaf, j]
                        t += 1
                found[a] = t


@kernel()
def vote_in_groups(tree, sample, stands, queries, leaf_of, order, need, metric, v0, v1):  # type: ignore[no-untyped-def]
    """As `vote_in_turn`; sample: (1, d, size) some of the points, each of which stands for so many (size,)."""
    half, dimensions, width = tree[0].shape
    work = make_work(half, dimensions, width)
    leaves, stack, boxes, few, few_weights = work[0], work[1], work[2], work[8], work[9]
    capacity = min(half, (4 * need + _SPARE) // width + 1) * width
    group_size = max(1, min(GROUP, _ENTRIES // capacity))
    columns, group = np.empty((dimensions, group_size)), np.empty((group_size, dimensions))
    low, high, guesses, near = np.empty((4, group_size))
    places, found = np.empty((2, group_size), np.int64)
    rims, rim_weights = np.empty((group_size, capacity)), np.empty((group_size, capacity), np.int64)
    sample_ranks = np.empty(stands.size)
    first, last = np.empty(dimensions), np.empty(dimensions)
    bias, window, before = 1.0, 0.3, 0.0
    start = 0
    while start < order.size:
        size = min(group_size, order.size - start)
        for a in range(size):
            places[a] = order[start + a]
            query = queries[places[a]]
            if before <= 0.0:
                before = certain(query, tree[2], tree[3], tree[4], leaf_of[places[a]], need, metric)
            before = guesses[a] = guess_rank(query, sample, stands, need, metric, sample_ranks, before)
            low[a], high[a] = bias * guesses[a] / (1.0 + window), bias * guesses[a] * (1.0 + window)
        for attempt in range(_ROUNDS):
            for a in range(size):
                for c in range(dimensions):
                    group[a, c] = columns[c, a] = queries[places[a], c]
            box_of(queries, places[:size], first, last)
            listed = list_leaves(tree[2], tree[3], first, last, high[:size].max(), metric, leaves, boxes, stack)
            _scan_group(tree, group, columns, size, high, listed, metric, near, work, (found, rims, rim_weights))
            left = missed = filled = 0
            for a in range(size):
                place, full = places[a], found[a] > capacity - width and listed * width > capacity
                below, above, rank, end = bracket(
                    rims[a], rim_weights[a], found[a], low[a], high[a], need, metric, few, few_weights
                )
                fits = not full and 0.0 <= end <= high[a]
                missed, filled = missed + (not fits), filled + full
                if fits:
                    weight = weigh(rims[a], rim_weights[a], found[a], end)
                    v0[place], v1[place] = weight >> LABEL_BITS, weight & LABEL_MASK
                    if guesses[a] > 0.0:
                        bias += 0.01 * (min(rank / guesses[a], 2.0) - bias)
                    continue
                if full or end > high[a]:
                    lower, upper = low[a], 0.5 * (low[a] + high[a]) if full else end
                else:
                    lower, upper = next_window(low[a], high[a], below, above, need, window, growth(metric, dimensions))
                places[left], guesses[left], low[left], high[left] = place, guesses[a], lower, upper
                left += 1
            if attempt == 0:  # one window in twenty misses, or so, which is cheaper than wider ones
                few_missed = 2 * filled > missed or 20 * missed < size
                window = max(_NARROWEST, 0.9 * window) if few_missed else min(_WIDEST, 1.1 * window)
            size = left
            if not size:
                break
        for a in range(size):
            query = queries[places[a]]
            cover = (query, query, 0, -1.0)
            _, weight, _, _, _ = settle(
                tree, query, leaf_of[places[a]], window, low[a], high[a], cover, work, need, metric
            )
            v0[places[a]], v1[places[a]] = weight >> LABEL_BITS, weight & LABEL_MASK
        start += min(group_size, order.size - start)
