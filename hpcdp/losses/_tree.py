"""Closed-ball votes of vector outputs, exact in the distances that the search itself computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._distinct import Rows
from hpcdp.losses._hamming import HammingSearch
from hpcdp.losses.parameters import Metric

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ORDERS = {"manhattan": 1.0, "euclidean": 2.0, "chebyshev": np.inf}
_ENTRIES = 1 << 21  # neighbours per block: some ten arrays of 8 bytes each, so below 200 MB
_FARTHEST = 2.0**500  # squares of it stay finite; the training rows themselves are scaled to at most 1
_LEAF = 64
# A tree skips a branch by a sum of up to some hundred rounded side lengths. A point on the ball's rim may be lost to
# that, unless the search went on to a distance that is larger by more than those roundings.
_RIM = 1.0 + 1e-9


@dataclass(frozen=True, eq=False)
class TreeSearch:
    """Balls over distinct rows by scipy's k-d tree; c0, c1: training counts of the rows, total: their sum."""

    tree: Any
    exponent: int
    order: float
    c0: Ints
    c1: Ints
    total: int
    k: int

    @classmethod
    def over(cls, rows: Floats, c0: Ints, c1: Ints, k: int, metric: Metric) -> TreeSearch:
        """A search over distinct finite rows (rows, d) with training counts c0, c1 of both sides."""
        from scipy.spatial import cKDTree

        # a power of two changes no comparison of distances and keeps squares from overflow and underflow
        exponent = -int(np.frexp(np.abs(rows).max(initial=0.0))[1])
        with np.errstate(under="ignore"):
            tree = cKDTree(np.ldexp(rows, exponent), leafsize=_LEAF, balanced_tree=False)
        return cls(tree, exponent, _ORDERS[metric], c0, c1, int(c0.sum() + c1.sum()), k)

    def votes(self, outputs: Floats) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each."""
        v0, v1 = np.zeros(outputs.shape[0], np.int64), np.zeros(outputs.shape[0], np.int64)
        rows = self.c0.size
        if not rows:
            return v0, v1
        with np.errstate(over="ignore", under="ignore"):
            x = np.clip(np.ldexp(outputs, self.exponent), -_FARTHEST, _FARTHEST)
        need = min(self.k, self.total)
        width = min(rows, -(-need * rows // self.total) + need // 16 + 8)
        pending = np.arange(outputs.shape[0])
        while pending.size:
            left = []
            for block in _cut(pending, max(1, _ENTRIES // width)):
                distance, place = self.tree.query(x[block], k=width, p=self.order)
                shape = (block.size, width)
                a, b, done = self._vote(distance.reshape(shape), place.reshape(shape), need)
                v0[block[done]], v1[block[done]] = a[done], b[done]
                left.append(block[~done])
            pending = np.concatenate(left)
            width = min(rows, 2 * width)
        return v0, v1

    def _vote(self, distance: Floats, place: Ints, need: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """Votes among found rows (size, width), nearest first, and where they surely hold the whole ball."""
        a, b = self.c0[place], self.c1[place]
        reach = np.cumsum(a + b, axis=1) >= need
        radius = distance[np.arange(place.shape[0]), reach.argmax(axis=1)]
        done = reach[:, -1] & ((distance[:, -1] > radius * _RIM) | (place.shape[1] == self.c0.size))
        ball = distance <= radius[:, None]
        return (a * ball).sum(axis=1), (b * ball).sum(axis=1), done


def _cut(places: Ints, size: int) -> Iterator[Ints]:
    for start in range(0, places.size, size):
        yield places[start : start + size]


@dataclass(frozen=True, eq=False)
class BallVotes:
    """Votes of vectors: an atom's own points vote, alone; around everything else a closed ball of the other points.

    c0, c1: training counts of the distinct rows, atom: which of them are atoms; each has one entry more, for rows that
    training never saw.
    """

    rows: Rows
    c0: Ints
    c1: Ints
    atom: NDArray[np.bool_]
    search: TreeSearch | HammingSearch

    @classmethod
    def learn(cls, rows: Rows, c0: Ints, c1: Ints, k: int, metric: Metric, least: int) -> BallVotes:
        """Votes among distinct rows with training counts c0, c1 of both sides; atoms are held by at least `least`."""
        atom = c0 + c1 >= least
        others = np.ascontiguousarray(rows.rows[~atom])
        counts = (c0[~atom], c1[~atom], k)
        search: TreeSearch | HammingSearch
        if metric == "hamming" or (metric != "chebyshev" and _of_bits(rows)):
            search = HammingSearch.over(others, *counts)
        else:
            search = TreeSearch.over(others, *counts, metric)
        return cls(rows, np.append(c0, 0), np.append(c1, 0), np.append(atom, False), search)

    def votes(self, outputs: Floats) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each."""
        found = self.rows.find(outputs)
        v0, v1 = self.c0[found], self.c1[found]
        new = found < 0
        v0[new], v1[new] = self.search.votes(outputs[new])
        near = ~new & ~self.atom[found]
        seen, back = np.unique(found[near], return_inverse=True)  # one search serves all outputs of one row
        w0, w1 = self.search.votes(self.rows.rows[seen])
        v0[near], v1[near] = w0[back], w1[back]
        return v0, v1


def _of_bits(rows: Rows) -> bool:
    """Whether each column has at most two values, as far apart as in every other column.

    Then the Euclidean and Manhattan distances of training rows grow with the number of columns that differ, and a tree
    is of no use.
    """
    if len(rows.columns) < rows.rows.shape[1]:
        return False
    gaps = {float(column[-1] - column[0]) for column in rows.columns if column.size > 1}
    return len(gaps) <= 1 and all(column.size <= 2 for column in rows.columns)
