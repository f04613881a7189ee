"""Closed-ball votes of vector outputs, exact in the distances that the search itself computed.

Under the Hamming metric a tree prunes nothing, since most distances are equal: there are exact integer distances to all
distinct training rows. Positions of values are packed into bit planes: plane b holds bit b of the positions of 64 columns'
values. Two rows differ in as many columns as the union of their planes' XORs has bits. Rows of booleans are their one plane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.losses.distinct import Distinct, pack_bits
from hpcdp.losses.knn._ball_kernels import CHEBYSHEV, EUCLIDEAN, LABEL_BITS, MANHATTAN, vote
from hpcdp.losses.parameters import Metric
from hpcdp.losses.protocol import Outputs

Ints = NDArray[np.int64]

_ODD = np.uint64(0x5555555555555555)
_PAIRS = np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)


@kernel()
def _vote(queries, unknown, rows, c0, total, k, columns, v0, v1):  # type: ignore[no-untyped-def]
    """Votes of the smallest whole ball with at least k voters, or all; unknown: bits of columns whose value no row has."""
    words, planes = rows.shape[1], rows.shape[2]
    near = np.zeros((columns + 1, 2), np.int64)
    for i in range(queries.shape[0]):
        near[:] = 0
        for j in range(rows.shape[0]):
            distance = np.int64(0)
            for w in range(words):
                differ = unknown[i, w]
                for plane in range(planes):
                    differ |= queries[i, w, plane] ^ rows[j, w, plane]
                # and now how many of its bits are set, by pairs, nibbles and bytes
                differ -= (differ >> np.uint64(1)) & _ODD
                differ = (differ & _PAIRS) + ((differ >> np.uint64(2)) & _PAIRS)
                differ = (differ + (differ >> np.uint64(4))) & _NIBBLES
                distance += np.int64((differ * _BYTES) >> np.uint64(56))
            near[distance, 0] += c0[j]
            near[distance, 1] += total[j]
        first = both = np.int64(0)
        for ring in range(columns + 1):
            first += near[ring, 0]
            both += near[ring, 1]
            if both >= k:
                break
        v0[i], v1[i] = first, both - first


@dataclass(frozen=True, eq=False)
class HammingSearch:
    """Balls over distinct rows; values: distinct ones of each column, none of booleans; planes: (rows, words, planes) uint64."""

    values: tuple[NDArray[Any], ...]
    planes: NDArray[np.uint64]
    c0: Ints
    c1: Ints
    k: int

    @classmethod
    def over(cls, rows: NDArray[Any], c0: Ints, c1: Ints, k: int) -> HammingSearch:
        """A search over distinct rows (rows, d) with training counts c0, c1 of both sides."""
        values = () if rows.dtype == np.bool_ else tuple(np.unique(column) for column in rows.T)
        return cls(values, _pack(values, rows)[0], c0, c1, k)

    def votes(self, outputs: NDArray[Any]) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each."""
        v0, v1 = np.empty(outputs.shape[0], np.int64), np.empty(outputs.shape[0], np.int64)
        _vote(*_pack(self.values, outputs), self.planes, self.c0, self.c0 + self.c1, self.k, outputs.shape[1], v0, v1)
        return v0, v1


def _pack(values: tuple[NDArray[Any], ...], rows: NDArray[Any]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Bit planes of the rows, (rows, words, planes), and a bit for each value that is not among `values`."""
    words = (rows.shape[1] + 63) // 64
    unknown = np.zeros((rows.shape[0], words), np.uint64)
    if not values:
        return pack_bits(rows)[:, :, None], unknown
    planes = max(1, max(v.size - 1 for v in values).bit_length())  # of the positions 0 … size - 1
    out = np.zeros((rows.shape[0], words, planes), np.uint64)
    for c, known in enumerate(values):
        if not known.size:
            continue
        place = np.minimum(np.searchsorted(known, rows[:, c]), known.size - 1)
        bits = (place[:, None] >> np.arange(planes)) & 1
        word, shift = divmod(c, 64)
        out[:, word, :] |= bits.astype(np.uint64) << np.uint64(shift)
        unknown[:, word] |= (known[place] != rows[:, c]).astype(np.uint64) << np.uint64(shift)
    return out, unknown


Floats = NDArray[np.float64]

_METRICS = {"euclidean": EUCLIDEAN, "manhattan": MANHATTAN, "chebyshev": CHEBYSHEV}
_FARTHEST = 2.0**500  # squares of it stay finite; the training rows themselves are scaled to at most 1
_LEAF = 64
_LANES = 8  # leaves are filled up to a multiple of so many points, what a vector register of 512 bits holds


@dataclass(frozen=True, eq=False)
class Tree:
    """A k-d tree of points and weights, nodes numbered as in a heap, split at the median of the widest column; see `over`."""

    blocks: Floats  # (leaves, d, width), column by column so that loops use vector units, filled up with inf
    weights: Ints  # (leaves, width), c0 · 2³² + c1, filled up with 0
    low: Floats  # (2·leaves, d), of each node's bounding box, as high
    high: Floats
    held: Ints  # (2·leaves,), each node's weight
    column: Ints  # (leaves,), of inner nodes: rows below the value there are on the left, in node 2i, others in 2i + 1
    value: Floats

    @classmethod
    def over(cls, points: Floats, c0: Ints, c1: Ints) -> Tree:
        """The tree of points (size, d), size at least 1, with counts of both sides."""
        if not np.isfinite(points).all():
            raise ValueError("training outputs of knn: finite numbers; given: NaN or infinite ones")
        size, columns = points.shape
        if max(int(c0.sum()), int(c1.sum())) >= 1 << 31:
            raise ValueError(f"training points per database: below 2^31; given: {int(c0.sum())} and {int(c1.sum())}")
        leaves = 1 << max(0, (-(-size // _LEAF) - 1).bit_length())
        order, x = np.arange(size), points.T.copy()
        starts, stops = np.zeros(2 * leaves, np.int64), np.full(2 * leaves, size)
        column, value = np.zeros(leaves, np.int64), np.zeros(leaves)
        for node in range(1, leaves):
            own = slice(starts[node], stops[node])
            column[node] = widest = np.ptp(x[:, own], axis=1).argmax()
            middle = (own.stop - own.start) // 2
            split = np.argpartition(x[widest, own], middle)
            x[:, own], order[own] = x[:, own][:, split], order[own][split]
            starts[2 * node], starts[2 * node + 1] = own.start, own.start + middle
            stops[2 * node], stops[2 * node + 1] = own.start + middle, own.stop
            value[node] = x[widest, own.start + middle]
        counts, first = ((c0.astype(np.int64) << LABEL_BITS) + c1)[order], starts[leaves:]
        low, high = np.full((2 * leaves, columns), np.inf), np.full((2 * leaves, columns), -np.inf)
        held = np.zeros(2 * leaves, np.int64)
        low[leaves:], high[leaves:] = np.minimum.reduceat(x, first, axis=1).T, np.maximum.reduceat(x, first, axis=1).T
        held[leaves:] = np.add.reduceat(counts, first)
        half = leaves // 2
        while half:
            pairs = slice(half, 2 * half), slice(2 * half, 4 * half)
            low[pairs[0]] = low[pairs[1]].reshape(half, 2, columns).min(axis=1)
            high[pairs[0]] = high[pairs[1]].reshape(half, 2, columns).max(axis=1)
            held[pairs[0]] = held[pairs[1]].reshape(half, 2).sum(axis=1)
            half //= 2
        sizes = np.diff(np.append(first, size))
        width = -(-int(sizes.max()) // _LANES) * _LANES
        blocks, weights = np.full((leaves, columns, width), np.inf), np.zeros((leaves, width), np.int64)
        leaf = np.repeat(np.arange(leaves), sizes)
        place = np.arange(size) - first[leaf]
        blocks[leaf, :, place], weights[leaf, place] = x.T, counts
        return cls(blocks, weights, low, high, held, column, value)

    def leaves_of(self, queries: Floats) -> Ints:
        """The leaf of each query (size, d)."""
        node, at = np.ones(queries.shape[0], np.int64), np.arange(queries.shape[0])
        for _ in range(self.column.size.bit_length() - 1):
            node = 2 * node + (queries[at, self.column[node]] >= self.value[node])
        return node - self.column.size


@dataclass(frozen=True, eq=False)
class TreeSearch:
    """Balls over distinct rows, scaled by two to the exponent, by a k-d tree; need: points that a ball holds at least."""

    tree: Tree | None
    exponent: int
    metric: int
    need: int

    @classmethod
    def over(cls, rows: Floats, c0: Ints, c1: Ints, k: int, metric: Metric) -> TreeSearch:
        """A search over distinct finite rows (rows, d) with training counts c0, c1 of both sides."""
        # a power of two changes no comparison of distances and keeps squares from overflow and underflow
        exponent = -int(np.frexp(np.abs(rows).max(initial=0.0))[1])
        with np.errstate(under="ignore"):
            tree = Tree.over(np.ldexp(rows, exponent), c0, c1) if rows.shape[0] else None
        return cls(tree, exponent, _METRICS[metric], min(k, int(c0.sum() + c1.sum())))

    def votes(self, outputs: Floats) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each."""
        v0, v1 = np.zeros(outputs.shape[0], np.int64), np.zeros(outputs.shape[0], np.int64)
        tree = self.tree
        if tree is None:
            return v0, v1
        with np.errstate(over="ignore", under="ignore"):
            x = np.clip(np.ldexp(outputs, self.exponent), -_FARTHEST, _FARTHEST)
        if np.isnan(x).any():
            raise ValueError("outputs that knn scores: numbers; given: NaN")
        leaf = tree.leaves_of(x)
        order = np.argsort(leaf, kind="stable")
        nodes = (tree.blocks, tree.weights, tree.low, tree.high, tree.held)
        if order.size:
            vote(nodes, x, leaf, order, self.need, self.metric, v0, v1)
        return v0, v1


@dataclass(frozen=True, eq=False)
class BallVotes:
    """Votes of vectors: an atom's own points vote, alone; around all else a closed ball of the other points."""

    rows: Distinct
    c0: Ints
    c1: Ints
    atom: NDArray[np.bool_]  # as c0 and c1 with one entry more, for rows that training never saw
    search: TreeSearch | HammingSearch

    @classmethod
    def learn(cls, rows: Distinct, c0: Ints, c1: Ints, k: int, metric: Metric, least: int) -> BallVotes:
        """Votes among distinct rows with training counts c0, c1 of both sides; atoms are held by at least `least`."""
        atom, values = c0 + c1 >= least, rows.values()
        others = np.ascontiguousarray(values[~atom])
        counts = (c0[~atom], c1[~atom], k)
        search: TreeSearch | HammingSearch
        if metric == "hamming" or (metric != "chebyshev" and _are_bits(values)):
            search = HammingSearch.over(others, *counts)
        else:
            search = TreeSearch.over(others, *counts, metric)
        return cls(rows, np.append(c0, 0), np.append(c1, 0), np.append(atom, False), search)

    def votes(self, outputs: Outputs) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each."""
        values = self.rows.values()
        outputs = np.asarray(outputs, values.dtype)
        indices = self.rows.find(outputs)
        v0, v1 = self.c0[indices], self.c1[indices]
        new = indices < 0
        v0[new], v1[new] = self.search.votes(outputs[new])
        near = ~new & ~self.atom[indices]
        seen, back = np.unique(indices[near], return_inverse=True)  # one search serves all outputs of one row
        w0, w1 = self.search.votes(values[seen])
        v0[near], v1[near] = w0[back], w1[back]
        return v0, v1


def _are_bits(rows: NDArray[Any]) -> bool:
    """Whether each column has two values at most, all as far apart: then distances count columns, and a tree is of no use."""
    if rows.dtype == np.bool_ or not rows.size:
        return True
    low, high = rows.min(axis=0), rows.max(axis=0)
    gaps = high - low
    return bool((gaps[gaps > 0.0] == gaps.max()).all() and ((rows == low) | (rows == high)).all())
