"""Kernels that rank points and boxes by how far they are from queries.

A rank is what distances are compared by: the sum of squared differences, the sum of differences, or the largest one,
added in the order of the columns in float64. Euclidean distances are square roots of ranks, and ranks of one square
root are one distance. Rounding is monotone, so the ranks of a box's nearest and farthest corner, added in the same
order, bound the ranks of its points exactly.
"""

from __future__ import annotations

import math

import numpy as np

from hpcdp._base.kernels import kernel

EUCLIDEAN, MANHATTAN, CHEBYSHEV = 0, 1, 2


@kernel()
def to_distance(rank, metric):  # type: ignore[no-untyped-def]
    """The distance of a rank."""
    return math.sqrt(rank) if metric == EUCLIDEAN else rank


@kernel()
def to_rank(distance, metric):  # type: ignore[no-untyped-def]
    """About the rank of a distance."""
    return distance * distance if metric == EUCLIDEAN else distance


@kernel()
def last_equal(rank, metric):  # type: ignore[no-untyped-def]
    """The largest rank that is the same distance."""
    if metric != EUCLIDEAN or rank == np.inf:
        return rank
    root = math.sqrt(rank)
    bits = np.float64(rank).view(np.int64)
    while math.sqrt(np.int64(bits + 1).view(np.float64)) == root:
        bits += 1
    return np.int64(bits).view(np.float64)


@kernel()
def fold(rank, gap, metric):  # type: ignore[no-untyped-def]
    if metric == EUCLIDEAN:
        return rank + gap * gap
    if metric == MANHATTAN:
        return rank + gap
    return max(rank, gap)


@kernel()
def rank_points(query, blocks, leaf, metric, ranks):  # type: ignore[no-untyped-def]
    """Ranks of the points of a leaf."""
    columns, width = blocks.shape[1], blocks.shape[2]
    if metric == EUCLIDEAN:
        first = columns % 2
        x = query[0]
        if first:
            for j in range(width):
                gap = x - blocks[leaf, 0, j]
                ranks[j] = gap * gap
        else:
            y = query[1]
            for j in range(width):
                gap, other = x - blocks[leaf, 0, j], y - blocks[leaf, 1, j]
                ranks[j] = gap * gap + other * other
            first = 2
        for c in range(first, columns, 2):
            x, y = query[c], query[c + 1]
            for j in range(width):
                gap, other = x - blocks[leaf, c, j], y - blocks[leaf, c + 1, j]
                ranks[j] = (ranks[j] + gap * gap) + other * other
        return
    for j in range(width):
        ranks[j] = abs(query[0] - blocks[leaf, 0, j])
    for c in range(1, columns):
        x = query[c]
        if metric == MANHATTAN:
            for j in range(width):
                ranks[j] += abs(x - blocks[leaf, c, j])
        else:
            for j in range(width):
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
def near_queries(columns, size, box_low, box_high, metric, near):  # type: ignore[no-untyped-def]
    """Least possible ranks of a box's points from the first `size` queries, given column by column (d, …)."""
    for j in range(size):
        near[j] = 0.0
    for c in range(columns.shape[0]):
        low, high = box_low[c], box_high[c]
        for j in range(size):
            below, above = low - columns[c, j], columns[c, j] - high
            gap = below if below > above else above
            gap = gap if gap > 0.0 else 0.0
            if metric == EUCLIDEAN:
                near[j] += gap * gap
            elif metric == MANHATTAN:
                near[j] += gap
            else:
                near[j] = gap if gap > near[j] else near[j]
