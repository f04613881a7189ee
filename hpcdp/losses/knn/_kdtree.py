"""A k-d tree whose points lie in leaf order, column by column within a leaf, so that distance loops use vector units.

Nodes are numbered as in a heap: the children of node i are 2i and 2i + 1, the root is 1, the leaves are the last half.
Each node splits its points at the median of the column in which they spread most, so all leaves hold equally many
points, give or take one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.losses.knn._selection_kernels import LABEL_BITS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LANES = 8  # leaves are filled up to a multiple of so many points, what a vector register of 512 bits holds
_SAMPLE = 4096  # points of the sample, at most
_FACTOR = np.uint64(6364136223846793005)  # of Knuth's MMIX generator: pivots are pseudo-random, so no order is a trap
_STEP = np.uint64(1442695040888963407)


@kernel()
def _split_at(keys, places, start, stop, middle):  # type: ignore[no-untyped-def]
    """Reorder keys[start:stop], and places with them, so that none before `middle` is above any from there on."""
    low, high = start, stop - 1
    state = np.uint64(start + stop)
    while low < high:
        state = state * _FACTOR + _STEP
        pivot = keys[low + np.int64((state >> np.uint64(33)) % np.uint64(high - low + 1))]
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                places[i], places[j] = places[j], places[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@kernel()
def _build(points, depth, places, starts, low, high, column, value):  # type: ignore[no-untyped-def]
    """Fill places (order of the points), starts, boxes and splits of all nodes; see `KdTree`."""
    size, columns = points.shape
    keys = np.empty(size)
    starts[1, 0], starts[1, 1] = 0, size
    for node in range(1, 2 << depth):
        start, stop = starts[node, 0], starts[node, 1]
        low[node, :], high[node, :] = np.inf, -np.inf
        for i in range(start, stop):
            for c in range(columns):
                x = points[places[i], c]
                low[node, c] = min(low[node, c], x)
                high[node, c] = max(high[node, c], x)
        if node >= 1 << depth:
            continue
        widest = 0
        for c in range(1, columns):
            if high[node, c] - low[node, c] > high[node, widest] - low[node, widest]:
                widest = c
        for i in range(start, stop):
            keys[i] = points[places[i], widest]
        middle = (start + stop) >> 1
        _split_at(keys, places, start, stop, middle)
        column[node], value[node] = widest, keys[middle]
        starts[2 * node, 0], starts[2 * node, 1] = start, middle
        starts[2 * node + 1, 0], starts[2 * node + 1, 1] = middle, stop


@kernel()
def _fill(points, counts, places, starts, blocks, weights, held):  # type: ignore[no-untyped-def]
    """Copy points and weights into the leaves, and add the weights up in all nodes."""
    leaves = blocks.shape[0]
    for leaf in range(leaves):
        start, stop = starts[leaves + leaf, 0], starts[leaves + leaf, 1]
        for i in range(start, stop):
            for c in range(points.shape[1]):
                blocks[leaf, c, i - start] = points[places[i], c]
            weights[leaf, i - start] = counts[places[i]]
            held[leaves + leaf] += counts[places[i]]
    for node in range(leaves - 1, 0, -1):
        held[node] = held[2 * node] + held[2 * node + 1]


@kernel()
def _leaves_of(queries, column, value, leaf):  # type: ignore[no-untyped-def]
    for i in range(queries.shape[0]):
        node = 1
        while node < column.size:
            node = 2 * node + (queries[i, column[node]] >= value[node])
        leaf[i] = node - column.size


@kernel()
def _order_by(codes, size, order):  # type: ignore[no-untyped-def]
    """Stable counting sort of codes 0 … size - 1."""
    position = np.zeros(size + 1, np.int64)
    for i in range(codes.size):
        position[codes[i] + 1] += 1
    for code in range(size):
        position[code + 1] += position[code]
    for i in range(codes.size):
        order[position[codes[i]]] = i
        position[codes[i]] += 1


@dataclass(frozen=True, eq=False)
class KdTree:
    """Points and their weights in leaf order.

    blocks: (leaves, d, width) coordinates, filled up with inf. weights: (leaves, width) int64, c0 · 2³² + c1, filled up
    with 0. low, high: (2·leaves, d) the bounding box of each node's points. held: (2·leaves,) each node's weight.
    column, value: (leaves,) where each inner node splits: rows below the value are on its left.
    sample: (1, d, some) points evenly out of the leaf order, each of which stands for as many as `stands` says.
    """

    blocks: Floats
    weights: Ints
    low: Floats
    high: Floats
    held: Ints
    column: Ints
    value: Floats
    sample: Floats
    stands: Ints

    @classmethod
    def over(cls, points: Floats, c0: Ints, c1: Ints, leaf: int) -> KdTree:
        """The tree of points (size, d), size at least 1, with counts of both sides, at most `leaf` points a leaf.

        Raises:
            ValueError: a point is not finite, or a side's counts sum up to 2³¹ or more.
        """
        if not np.isfinite(points).all():
            raise ValueError("training outputs of knn: finite numbers; given: NaN or infinite ones")
        size, columns = points.shape
        if max(int(c0.sum()), int(c1.sum())) >= 1 << 31:
            raise ValueError(f"training points per database: below 2^31; given: {int(c0.sum())} and {int(c1.sum())}")
        depth = max(0, (-(-size // leaf) - 1).bit_length())
        leaves = 1 << depth
        places = np.arange(size)
        starts = np.empty((2 * leaves, 2), np.int64)
        low, high = np.empty((2 * leaves, columns)), np.empty((2 * leaves, columns))
        column, value = np.zeros(leaves, np.int64), np.zeros(leaves)
        _build(points, depth, places, starts, low, high, column, value)
        widest = int((starts[leaves:, 1] - starts[leaves:, 0]).max())
        width = -(-widest // _LANES) * _LANES
        blocks, weights = np.full((leaves, columns, width), np.inf), np.zeros((leaves, width), np.int64)
        held = np.zeros(2 * leaves, np.int64)
        counts = (c0.astype(np.int64) << LABEL_BITS) + c1
        _fill(points, counts, places, starts, blocks, weights, held)
        chosen = np.arange(0, size, -(-size // _SAMPLE))
        sample = np.ascontiguousarray(points[places[chosen]].T)[None]
        stands = np.add.reduceat((c0 + c1)[places], chosen).astype(np.int64)
        return cls(blocks, weights, low, high, held, column, value, sample, stands)

    def group(self, queries: Floats) -> tuple[Ints, Ints]:
        """The leaf of each query (size, d), and an order in which queries of one leaf are neighbours."""
        leaf, order = np.empty(queries.shape[0], np.int64), np.empty(queries.shape[0], np.int64)
        _leaves_of(queries, self.column, self.value, leaf)
        _order_by(leaf, self.column.size, order)
        return leaf, order
