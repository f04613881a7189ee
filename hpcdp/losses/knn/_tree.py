"""Closed-ball votes of vector outputs, exact in the distances that the search itself computed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.frequency.distinct import Rows
from hpcdp.losses.knn._ball_kernels import vote_in_turn
from hpcdp.losses.knn._group_kernels import vote_in_groups
from hpcdp.losses.knn._hamming import HammingSearch
from hpcdp.losses.knn._kdtree import KdTree
from hpcdp.losses.knn._rank_kernels import CHEBYSHEV, EUCLIDEAN, MANHATTAN
from hpcdp.losses.knn.parameters import Metric

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_METRICS = {"euclidean": EUCLIDEAN, "manhattan": MANHATTAN, "chebyshev": CHEBYSHEV}
_FARTHEST = 2.0**500  # squares of it stay finite; the training rows themselves are scaled to at most 1
_LEAF = 64
_GROUPED = 5  # from so many columns on, queries are searched in groups, which is faster then
_BLOCK = 4096  # queries a thread takes at a time


@dataclass(frozen=True, eq=False)
class TreeSearch:
    """Balls over distinct rows by a k-d tree.

    exponent: rows are scaled by two to it. need: points that a ball holds at least. threads: how many search at once.
    """

    tree: KdTree | None
    exponent: int
    metric: int
    need: int
    threads: int = 1

    @classmethod
    def over(cls, rows: Floats, c0: Ints, c1: Ints, k: int, metric: Metric, threads: int = 1) -> TreeSearch:
        """A search over distinct finite rows (rows, d) with training counts c0, c1 of both sides."""
        # a power of two changes no comparison of distances and keeps squares from overflow and underflow
        exponent = -int(np.frexp(np.abs(rows).max(initial=0.0))[1])
        with np.errstate(under="ignore"):
            tree = KdTree.over(np.ldexp(rows, exponent), c0, c1, _LEAF) if rows.shape[0] else None
        return cls(tree, exponent, _METRICS[metric], min(k, int(c0.sum() + c1.sum())), threads)

    def votes(self, outputs: Floats) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each; the same for any `threads`.

        Raises:
            ValueError: an output is NaN.
        """
        v0, v1 = np.zeros(outputs.shape[0], np.int64), np.zeros(outputs.shape[0], np.int64)
        tree = self.tree
        if tree is None:
            return v0, v1
        with np.errstate(over="ignore", under="ignore"):
            x = np.clip(np.ldexp(outputs, self.exponent), -_FARTHEST, _FARTHEST)
        if np.isnan(x).any():
            raise ValueError("outputs that knn scores: numbers; given: NaN")
        leaf, order = tree.group(x)
        nodes = (tree.blocks, tree.weights, tree.low, tree.high, tree.held)
        search = vote_in_groups if x.shape[1] >= _GROUPED else vote_in_turn

        def vote(block: Ints) -> None:
            search(nodes, tree.sample, tree.stands, x, leaf, block, self.need, self.metric, v0, v1)

        size = max(1, min(_BLOCK, -(-order.size // self.threads)))
        blocks = [order[start : start + size] for start in range(0, order.size, size)]
        if min(self.threads, len(blocks)) <= 1:
            for block in blocks:
                vote(block)
        else:  # the kernels hold no GIL and write each its own votes
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(vote, blocks))
        return v0, v1


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
    def learn(cls, rows: Rows, c0: Ints, c1: Ints, k: int, metric: Metric, least: int, threads: int = 1) -> BallVotes:
        """Votes among distinct rows with training counts c0, c1 of both sides; atoms are held by at least `least`."""
        atom = c0 + c1 >= least
        others = np.ascontiguousarray(rows.rows[~atom])
        counts = (c0[~atom], c1[~atom], k)
        search: TreeSearch | HammingSearch
        if metric == "hamming" or (metric != "chebyshev" and _of_bits(rows)):
            search = HammingSearch.over(others, *counts)
        else:
            search = TreeSearch.over(others, *counts, metric, threads)
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
